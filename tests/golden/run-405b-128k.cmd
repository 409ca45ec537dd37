stepcast run llama3-24k llama3-405b-128k
