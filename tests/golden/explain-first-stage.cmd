stepcast explain dgx-h100-8 llama3-70b --set plan.pp=8 --set plan.dp=1 --set plan.vpp=1 --set plan.schedule=1f1b --set plan.overlap_p2p=false | sed -n '/^  Step/p;/^What that/,$p'
