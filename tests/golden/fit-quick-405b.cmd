stepcast fit dgx-h100-superpod llama3-405b --quick
