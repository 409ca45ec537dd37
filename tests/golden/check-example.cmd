stepcast check dgx-h100-8 llama3-70b
