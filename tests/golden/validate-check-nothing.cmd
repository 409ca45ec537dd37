stepcast validate collectives --rows "$srcdir/tests/data/validate/sweeps.jsonl" --format csv --filter strange --check
