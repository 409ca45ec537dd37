stepcast comm all-reduce dgx-h100-superpod --ranks 8 --nccl 2.26 --algo Ring --proto ll128 -b 1M -e 2M && stepcast comm all-reduce dgx-h100-superpod --ranks 16 --nccl 2.26 --algo nvls
