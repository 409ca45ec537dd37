stepcast --help
