stepcast comm all_gather_perf dgx-a100-superpod --ranks 32 --nccl textbook -b 1K -e 5K -i 1K --format csv
