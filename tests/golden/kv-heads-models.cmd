stepcast list models | head -5; stepcast check dgx-h100-8 llama3-8b --set plan.tp=16 --set plan.dp=4
