stepcast run
