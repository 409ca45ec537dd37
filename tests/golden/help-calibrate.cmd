stepcast help calibrate
