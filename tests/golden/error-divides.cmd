stepcast run dgx-h100-8 llama3-70b --set plan.tp=6
