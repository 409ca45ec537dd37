stepcast search --help
