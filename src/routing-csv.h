/* SPDX-License-Identifier: GPL-3.0-or-later */
/* routing-csv.h - recorded routing: how many tokens each expert got.
 * Layer: src.  A line for each layer with experts, in order, or one line for all of them; in it a number for each expert, split by
 * commas.  Numbers count relative to their line's sum, so tokens, shares and means over many steps all serve.  Lines that begin with #,
 * empty lines and a first line of names are skipped. */
#pragma once
#include <glib.h>

/* [*ret_lines * *ret_experts], the caller's.  Messages name line and cell, from 1. */
double *sc_routing_csv_parse (const char *text, guint *ret_lines, guint *ret_experts, GError **error);
double *sc_routing_csv_load (const char *path, guint *ret_lines, guint *ret_experts, GError **error);
