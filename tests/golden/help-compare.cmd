stepcast compare --help
