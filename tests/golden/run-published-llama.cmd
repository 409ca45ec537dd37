stepcast run dgx-h100-8 $srcdir/tests/data/published-llama.json | head -20
