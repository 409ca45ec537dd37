/* SPDX-License-Identifier: GPL-3.0-or-later */
/* category.c - names of the categories of time and memory. */
#include <string.h>
#include "models/category.h"

#define EXPOSED "exposed_"

static const struct
{
  const char *name, *label;
} times[] = {
  [SC_TIME_FORWARD] = { "forward", "forward" },       [SC_TIME_BACKWARD] = { "backward", "backward" },
  [SC_TIME_WEIGHT] = { "weight_gradients", "weight gradients" },
  [SC_TIME_RECOMPUTE] = { "recompute", "recompute" }, [SC_TIME_OPTIMIZER] = { "optimizer", "optimizer" },
  [SC_TIME_COMM_TP] = { "exposed_tp", "exposed TP" }, [SC_TIME_COMM_CP] = { "exposed_cp", "exposed CP" },
  [SC_TIME_COMM_EP] = { "exposed_ep", "exposed EP" }, [SC_TIME_COMM_PP] = { "exposed_pp", "exposed PP" },
  [SC_TIME_COMM_DP] = { "exposed_dp", "exposed DP" }, [SC_TIME_BUBBLE] = { "bubble", "bubble" },
  [SC_TIME_LATE_PEER] = { "late_peer", "late peer" }, [SC_TIME_HOST] = { "host", "host" },
};
G_STATIC_ASSERT (G_N_ELEMENTS (times) == SC_N_TIMES);

static const char *const mems[] = {
  [SC_MEM_WEIGHTS] = "weights",     [SC_MEM_GRADS] = "grads",
  [SC_MEM_OPTIMIZER] = "optimizer", [SC_MEM_ACTIVATIONS] = "activations",
  [SC_MEM_LOGITS] = "logits",       [SC_MEM_TRANSIENT] = "transient",
  [SC_MEM_COMM] = "comm",
};
G_STATIC_ASSERT (G_N_ELEMENTS (mems) == SC_N_MEMS);

const char *
sc_time_kind_name (ScTimeKind kind)
{
  g_return_val_if_fail ((guint) kind < SC_N_TIMES, NULL);
  return times[kind].name;
}

const char *
sc_time_kind_label (ScTimeKind kind)
{
  g_return_val_if_fail ((guint) kind < SC_N_TIMES, NULL);
  return times[kind].label;
}

const char *
sc_time_kind_group (ScTimeKind kind)
{
  g_return_val_if_fail ((guint) kind < SC_N_TIMES, NULL);
  return g_str_has_prefix (times[kind].name, EXPOSED) ? times[kind].name + strlen (EXPOSED) : NULL;
}

const char *
sc_mem_kind_name (ScMemKind kind)
{
  g_return_val_if_fail ((guint) kind < SC_N_MEMS, NULL);
  return mems[kind];
}
