stepcast validate memory --rows "$srcdir/tests/data/rows/runs.jsonl"
