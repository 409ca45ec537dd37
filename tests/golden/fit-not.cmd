stepcast fit --set plan.micro_batch=4 --set plan.global_batch=32 --verbose
