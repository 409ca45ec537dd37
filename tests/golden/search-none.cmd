stepcast search dgx-h100-8 llama3-70b --gpus 2 --global-batch 2
