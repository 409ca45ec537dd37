stepcast run dgx-h100-superpod llama3-8b --set plan.dp=1 --set plan.global_batch=16383 --set model.layers=1000 --set 'plan.microbatch_factors=[1,1.1]'
