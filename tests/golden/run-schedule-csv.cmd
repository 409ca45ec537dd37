stepcast run dgx-a100-superpod megatron-1t-full --set model.layers=4 --set plan.pp=2 --set plan.vpp=2 --set plan.global_batch=4 --set plan.schedule=dualpipev --schedule-csv - -o /dev/null
