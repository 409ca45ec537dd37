stepcast list precisions
