stepcast fit
