grid="sweep dgx-h100-8 llama3-8b --set topology.nodes=1 --set plan.gpus=8 --set plan.global_batch=64 --vary plan.tp=2,4,8 --vary plan.micro_batch=1,2 --quiet"
stepcast $grid >all.jsonl
for i in 0 1 2 3; do
  stepcast $grid --shard $i/4 --resume '%i-of-%n.jsonl'
done
stepcast merge 2-of-4.jsonl 0-of-4.jsonl 3-of-4.jsonl 1-of-4.jsonl | cmp - all.jsonl && echo the same
stepcast merge 0-of-4.jsonl 3-of-4.jsonl 2-of-4.jsonl 2-of-4.jsonl
echo $?
printf '{"sweep":' >>1-of-4.jsonl
stepcast merge ?-of-4.jsonl -o merged.jsonl && cmp merged.jsonl all.jsonl && echo the same
