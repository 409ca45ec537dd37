stepcast explain
