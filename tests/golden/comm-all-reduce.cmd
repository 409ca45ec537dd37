stepcast comm all-reduce dgx-h100-superpod --ranks 64 --nccl 2.26.2 -f 8
