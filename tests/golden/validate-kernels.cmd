stepcast validate kernels --rows "$srcdir/tests/data/kernels.jsonl"
