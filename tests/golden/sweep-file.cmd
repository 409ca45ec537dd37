cat >grid.json <<'END'
{
  "name": "which way to split 8 GPUs",
  "topology": "dgx-h100-8",
  "workload": "llama3-8b",
  "set": { "topology.nodes": 1, "plan.gpus": 8, "plan.global_batch": 64 },
  "vary": [
    { "plan.tp,plan.pp": [[1, 1], [8, 1], [3, 1]] },
    { "plan.recompute": ["none", "full"] },
    { "plan.micro_batch": "1:2" }
  ]
}
END
stepcast sweep grid.json --set seq=4096
stepcast sweep grid.json --shard 0/4
