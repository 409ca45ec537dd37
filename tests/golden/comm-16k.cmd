stepcast comm all-reduce dgx-h100-superpod --nccl 2.26.2 -b 1G -e 1G
