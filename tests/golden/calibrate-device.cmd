stepcast calibrate "$srcdir/tests/data/calibrate/h200.jsonl" --format tsv --name mine
