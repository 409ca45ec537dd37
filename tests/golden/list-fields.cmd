stepcast list fields
