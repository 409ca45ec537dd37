stepcast list optimizers
