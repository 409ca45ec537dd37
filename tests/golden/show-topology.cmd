stepcast show dgx-h100-superpod
