stepcast list frameworks
