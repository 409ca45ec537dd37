stepcast run dgx-a100-superpod gpt-7.5b-zero3 --set plan.offload=optimizer
