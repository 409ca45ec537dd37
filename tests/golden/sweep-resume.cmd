grid="sweep dgx-h100-8 llama3-8b --set topology.nodes=1 --set plan.gpus=8 --set plan.global_batch=64 --vary plan.tp=2,4,8,16 --vary plan.micro_batch=1,2"
stepcast $grid --quiet --output all.csv
stepcast $grid --max-time 0 --resume part.csv
echo $?
head -n 4 all.csv >part.csv
printf 'torn' >>part.csv
stepcast $grid --resume part.csv && cmp part.csv all.csv && echo the same
stepcast $grid --resume part.csv
stepcast $grid --resume part.csv --set plan.recompute=full
stepcast $grid --resume part.csv --shard 1/2
stepcast $grid --output part.csv
