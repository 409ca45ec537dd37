stepcast run dgx-h100-8 llama3-70b --set plan.global_batch=16 --set 'topology.faults=[{"gpu":{"node":0,"index":3},"factor":0.8}]'
