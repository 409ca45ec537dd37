stepcast list collectives
