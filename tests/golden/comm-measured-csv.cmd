stepcast comm all-reduce dgx-a100-superpod --measured $srcdir/tests/data/nccl-tests/old-mpirun.txt --nccl 2.8.4 --format csv
