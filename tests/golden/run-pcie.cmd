stepcast run pcie-25gbe llama3-8b --set plan.dp=8 --set plan.global_batch=64
