stepcast explain pcie-25gbe gpt-7.5b-zero3 --set plan.dp=16 --set plan.global_batch=64 | sed -n '/^  Step/p;/^What that/,$p'
