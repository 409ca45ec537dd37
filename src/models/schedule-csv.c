/* SPDX-License-Identifier: GPL-3.0-or-later */
/* schedule-csv.c - an order that somebody else made: its slots come from a file (src/schedule-csv.c). */
#include "models/schedule.h"

static const char *
refuse (const ScScheduleShape *s)
{
  (void) s;
  return "csv needs an order, in plan.schedule_csv";
}

const ScSchedule sc_schedule_csv = {
  .name = "csv",
  .summary = "any order, read from plan.schedule_csv: a row per rank, cells like 2F0, 0I1, 1W3, 3B2",
  .source = "PyTorch's form, torch/distributed/pipelining/schedules.py",
  .refuse = refuse,
};
