stepcast calibrate "$srcdir/tests/data/calibrate/published.jsonl" --gpu A100-80GB --samples-only
