stepcast run dgx-a100 zero-bubble-1.5b
