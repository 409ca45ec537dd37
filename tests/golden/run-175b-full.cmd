stepcast run dgx-a100-superpod megatron-175b-full
