stepcast run dgx-h100-superpodd llama3-70b
