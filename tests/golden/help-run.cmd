stepcast run --help
