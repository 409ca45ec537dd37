stepcast explain pcie-25gbe llama3-8b-fsdp2 --set plan.dp=16 --set plan.global_batch=32 --set plan.recompute=full | sed -n '/^  Step/p;/^What that/,$p'
