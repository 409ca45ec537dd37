stepcast validate runs --format json --filter core-1 --rows "$srcdir/tests/data/rows/runs.jsonl"
