stepcast comm all-reduce dgx-h100-8 --measured $srcdir/tests/data/nccl-tests/unnamed.txt
