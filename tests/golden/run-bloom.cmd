stepcast run jean-zay-a100 bloom-176b
