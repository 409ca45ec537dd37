stepcast explain dgx-h100-8 llama3-70b --set plan.tp=16 --set plan.pp=2 | sed -n '/^  Step/p;/^What that/,$p'
