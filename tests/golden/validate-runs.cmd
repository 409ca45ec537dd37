stepcast validate runs --rows "$srcdir/tests/data/rows/runs.jsonl"
