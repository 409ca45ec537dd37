stepcast calibrate "$srcdir/tests/data/calibrate/h200.jsonl" -o h200.json
