stepcast list shardings
