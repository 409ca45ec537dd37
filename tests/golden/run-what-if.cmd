stepcast run dgx-h100-superpod llama3-405b --set device.scale.hbm=2
