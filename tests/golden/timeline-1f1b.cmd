stepcast run dgx-a100-superpod megatron-1t-full --set model.layers=4 --set plan.pp=4 --set plan.global_batch=8 --timeline - -o /dev/null
