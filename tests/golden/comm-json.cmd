stepcast comm reduce-scatter dgx-h100-superpod --ranks 32 --nccl 2.26.2 --group halves -b 1M -e 64M -f 64 --format json
