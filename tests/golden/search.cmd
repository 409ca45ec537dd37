stepcast search dgx-h100-8 llama3-8b --gpus 4 --global-batch 4 --top 3
