stepcast run dgx-h100-8 llama3-8b-fsdp2 --memory | sed -n '/^Memory of stage/,$p'
