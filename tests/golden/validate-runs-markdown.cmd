stepcast validate runs --format markdown --filter sweep --rows "$srcdir/tests/data/rows/runs.jsonl"
