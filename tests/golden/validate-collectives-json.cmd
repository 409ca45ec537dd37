stepcast validate collectives --rows "$srcdir/tests/data/validate/sweeps.jsonl" --format json --filter 'launch|strange'
