/* SPDX-License-Identifier: GPL-3.0-or-later */
/* schedule.c - the table of schedules. */
#include "models/schedule.h"
#include <string.h>

static const ScSchedule *const rows[] = {
  &sc_schedule_none,
  &sc_schedule_1f1b,
  &sc_schedule_interleaved,
  &sc_schedule_interleaved_rounds,
  &sc_schedule_interleaved_a2a,
  &sc_schedule_gpipe,
  &sc_schedule_looped_bfs,
  &sc_schedule_zb_h1,
  &sc_schedule_zb_h2,
  &sc_schedule_zb_1p,
  &sc_schedule_zb_2p,
  &sc_schedule_zb_v,
  &sc_schedule_v_half,
  &sc_schedule_v_min,
  &sc_schedule_dualpipe,
  &sc_schedule_dualpipev,
  &sc_schedule_csv,
  NULL,
};

const ScSchedule *const *
sc_schedule_all (void)
{
  return rows;
}

const ScSchedule *
sc_schedule_find (const char *name)
{
  for (guint i = 0; rows[i] != NULL; i++)
    if (strcmp (rows[i]->name, name) == 0)
      return rows[i];
  return NULL;
}
