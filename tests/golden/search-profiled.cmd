stepcast search dgx-a100 zero-bubble-1.5b --gpus 4 --global-batch 8
