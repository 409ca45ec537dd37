stepcast list changes
