stepcast comm --measured $srcdir/tests/data/nccl-tests/made-up-h100.txt dgx-h100-superpod --ranks 4
