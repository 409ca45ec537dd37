stepcast show model $srcdir/tests/data/hf/gpt_oss.json
