stepcast run dgx-h100-8 mixtral-8x7b
