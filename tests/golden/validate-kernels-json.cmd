stepcast validate kernels --rows "$srcdir/tests/data/kernels.jsonl" --format json --filter 'abacus|batched|grouped'
