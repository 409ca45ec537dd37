stepcast calibrate "$srcdir/tests/data/calibrate/h200.jsonl" --format json -o /dev/null
