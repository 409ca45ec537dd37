stepcast sweep --help
