stepcast explain --help
