stepcast run dgx-h100-8 mixtral-8x7b --set plan.moe_routing=$srcdir/tests/data/routing.csv
