stepcast help validate
