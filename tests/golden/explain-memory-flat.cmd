stepcast explain dgx-a100-superpod gpt-7.5b-zero3 --set plan.dp=128 | sed -n '/^  Step/p;/^What that/,$p'
