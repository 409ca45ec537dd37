stepcast list modules
