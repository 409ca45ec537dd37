stepcast sweep dgx-h100-8 llama3-8b --vary plan.tp,plan.pp=1,8/2,4/4,2 --vary plan.micro_batch=1:4 --vary topology.nodes=1:64:x2 --shard 1/5 --dry-run
stepcast sweep dgx-h100-8 llama3-8b --vary plan.tp,plan.pp=1,8/2,4/4,2 --vary plan.micro_batch=1:4 --vary topology.nodes=1:64:x2 --shard 1/5 --list | head -n 4
