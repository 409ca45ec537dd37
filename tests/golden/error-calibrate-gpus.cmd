stepcast calibrate "$srcdir/tests/data/calibrate/published.jsonl"
