stepcast show device A100
