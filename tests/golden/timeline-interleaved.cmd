stepcast run dgx-a100-superpod megatron-175b-full --set model.layers=8 --set plan.pp=4 --set plan.vpp=2 --set plan.global_batch=8 --timeline - -o /dev/null
