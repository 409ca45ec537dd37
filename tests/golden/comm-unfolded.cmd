for what in "all-reduce --group rails --group 0-7:32M" "all-gather --group halves" "broadcast --per-node 3" "reduce-scatter --group nodes" "alltoall --per-node 5"; do
  stepcast comm ${what%% *} dgx-h100-superpod --nccl 2.26.2 --ranks 48 -f 32 --format csv ${what#* } >folded
  stepcast comm ${what%% *} dgx-h100-superpod --nccl 2.26.2 --ranks 48 -f 32 --format csv ${what#* } --unfolded >unfolded
  diff folded unfolded && echo "$what: $(wc -l <folded) lines, the same"
done
