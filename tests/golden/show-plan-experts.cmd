stepcast show azure-nd-h100-v5 qwen3-235b
