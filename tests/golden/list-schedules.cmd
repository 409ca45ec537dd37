stepcast list schedules
