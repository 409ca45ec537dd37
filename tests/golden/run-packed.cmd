stepcast run dgx-h100-8 llama3-8b-128k --set 'seq_lengths=[[1000,100],[8000,50],[131072,10]]'
