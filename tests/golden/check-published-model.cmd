stepcast check dgx-h100-8 $srcdir/tests/data/published-model.json
