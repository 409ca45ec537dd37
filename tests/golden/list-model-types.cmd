stepcast list model-types
