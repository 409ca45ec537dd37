stepcast run dgx-a100-superpod megatron-1t-full --set model.layers=4 --set plan.pp=4 --set plan.global_batch=5 --set plan.schedule=zb-h1 --set plan.recompute=none --timeline - -o /dev/null
