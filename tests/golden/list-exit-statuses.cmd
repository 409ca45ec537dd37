stepcast list exit-statuses
