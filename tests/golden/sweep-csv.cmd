stepcast sweep dgx-h100-8 llama3-8b --set topology.nodes=1 --set plan.gpus=8 --set plan.global_batch=64 \
  --vary plan.tp=1:8:x2 --vary device.scale.hbm=1,1.5 --format csv --quiet
