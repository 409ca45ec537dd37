stepcast validate schedules --filter "zb-6.2b-72.*1f1b" --format json
