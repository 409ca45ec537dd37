stepcast validate schedules --filter zb-1.5b-144
