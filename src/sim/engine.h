/* SPDX-License-Identifier: GPL-3.0-or-later */
/* engine.h - runs a program: one event queue over streams, hosts and links.
 * Layer: sim. */
#pragma once
#include "sim/program.h"
#include "sim/trace.h"

#define SC_ENGINE_ERROR (sc_engine_error_quark ())
GQuark sc_engine_error_quark (void);
typedef enum
{
  SC_ENGINE_ERROR_DEADLOCK, /* some stream can never go on; the message names it */
  SC_ENGINE_ERROR_TOO_LONG, /* simulated time passes SC_TIME_MAX_S */
} ScEngineError;

/* Runs @program from time 0 until nothing is left.  Returns the trace, or NULL and SC_ENGINE_ERROR.
 * Deterministic: same program, same trace, bit for bit. */
ScTrace *sc_engine_run (const ScProgram *program, GError **error);

/* An actor leaves out what it would only repeat (steady.h): nothing that it has under way at @at is done from then on until @by later, and what
 * it does next is as much later.  Actors that meet in a call that is under way jump together. */
typedef struct
{
  ScTime at, by;
  ScTime issue; /* host time of what is left out */
} ScJump;

/* @jumps: [n_actors]; by 0: none. */
ScTrace *sc_engine_run_jumping (const ScProgram *program, const ScJump *jumps, GError **error);

/* The same, and the trace has the usage of the links: nothing else in it differs. */
ScTrace *sc_engine_run_metered (const ScProgram *program, GError **error);
