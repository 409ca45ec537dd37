stepcast fit --help
