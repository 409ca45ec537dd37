stepcast validate runs --format csv --rows "$srcdir/tests/data/rows/runs.jsonl"
