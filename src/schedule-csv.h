/* SPDX-License-Identifier: GPL-3.0-or-later */
/* schedule-csv.h - orders of pipeline passes in the form that PyTorch reads and writes (torch/distributed/pipelining/schedules.py).
 * Layer: src.  A line per pipeline rank; a cell is a stage, what is done there (F forward, I gradient of the input, W of the weights,
 * B both), and a micro-batch: 2F0.  (0F4;3B1)OVERLAP_F_B runs two of them together.  Empty cells only line things up. */
#pragma once
#include "models/schedule.h"

/* Checks that every stage runs every micro-batch forward and backward, on one rank, and that no rank waits for ever (MODELLING 7.8).
 * Messages name row and cell, from 1. */
ScOrders *sc_schedule_csv_parse (const char *text, GError **error);
ScOrders *sc_schedule_csv_load (const char *path, GError **error);

/* FALSE where the form cannot say it: with two pipelines against each other each stage lives on two ranks. */
gboolean sc_schedule_csv_write (const ScOrders *orders, GString *out, GError **error);
