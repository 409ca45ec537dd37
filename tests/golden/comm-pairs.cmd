stepcast comm all-to-all dgx-h100-superpod --ranks 64 -f 64 && stepcast comm sendrecv_perf llama3-24k --ranks 64 --per-node 4 -f 64
