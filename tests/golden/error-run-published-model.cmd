stepcast run dgx-h100-8 $srcdir/tests/data/published-model.json --set model.indexer.heads=64 --set model.indexer.head_dim=128 --set model.indexer.top_k=2048
