stepcast merge --help
