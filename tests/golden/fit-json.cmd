stepcast fit dgx-h100-8 llama3-8b-fsdp2 --set plan.micro_batch=4 --set plan.global_batch=32 --strict --format json
