stepcast show model $srcdir/tests/data/published-model.json --set model.layers=5
