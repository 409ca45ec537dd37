stepcast sweep dgx-a100-superpod gpt3-175b-3d --vary plan.tp,plan.pp=4,16/8,8/7,8/16,8 --vary plan.recompute=full,none --jobs 3
