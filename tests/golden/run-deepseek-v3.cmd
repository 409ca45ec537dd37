stepcast run deepseek-h800 deepseek-v3
