stepcast comm --help
