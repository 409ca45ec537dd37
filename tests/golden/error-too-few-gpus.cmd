stepcast run dgx-h100-8 llama3-405b
