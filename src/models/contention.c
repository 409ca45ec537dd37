/* SPDX-License-Identifier: GPL-3.0-or-later */
/* contention.c - SMs and memory traffic of collectives. */
#include "models/contention.h"
#include "models/nccl.h"

/* SMs of kernels that are not NCCL's: defaults of Transformer Engine's initialize_ub(), where a step of a ring is copied by one block, and of
 * DeepEP (20 of 132, DeepSeek-V3, arXiv 2412.19437, 3.2.2). */
#define USER_BUFFER_SMS 16
#define RING_EXCHANGE_SMS 1
#define DEEPEP_SMS 20

/* Of bandwidth, however fast the collective (assumed): what runs beside it gets its turns. */
#define MOST_OF_MEMORY 0.5

/* Bytes that one rank puts on the wire, of the buffer that nccl-tests counts. */
static double
wire_bytes (ScCollKind kind, guint n, double bytes)
{
  const double others = (n - 1.0) / MAX (n, 1);
  switch (kind)
    {
    case SC_COLL_ALL_REDUCE: return 2 * others * bytes;
    case SC_COLL_REDUCE_SCATTER:
    case SC_COLL_ALL_GATHER:
    case SC_COLL_ALL_TO_ALL: return others * bytes;
    case SC_COLL_BROADCAST:
    case SC_COLL_REDUCE:
    case SC_COLL_SEND_RECEIVE:
    case SC_COLL_SEND:
    case SC_N_COLLS:
    default: return bytes;
    }
}

/* Memory traffic per byte on the wire: read and written, and where it is added to something, that is read, too (MODELLING 6.5.2). */
static double
traffic_per_byte (ScCollKind kind)
{
  return kind == SC_COLL_ALL_REDUCE || kind == SC_COLL_REDUCE_SCATTER || kind == SC_COLL_REDUCE ? 3 : 2;
}

static double
memory_share (const ScDevice *device, const ScCollChoice *choice, ScCollKind kind, const ScGroupShape *shape, double bytes)
{
  if (!(choice->alone_s > 0))
    return 0;
  const double rate = wire_bytes (kind, shape->n, bytes) * traffic_per_byte (kind) / choice->alone_s;
  return MIN (rate / device->memory_bytes_per_s.value, MOST_OF_MEMORY);
}

static gboolean
is_measured (const ScCited *slowdown)
{
  return slowdown->value > 1 && slowdown->grade == SC_GRADE_MEASURED;
}

/* What a slowdown means as a share of the rate. */
static double
share_of (double slowdown)
{
  return 1 - 1 / MAX (slowdown, 1);
}

static ScContention
of_sms (const ScDevice *device, double sms, double most, double memory)
{
  const ScCited *const product = &device->hidden_slowdown, *const elementwise = &device->memory_slowdown;
  const double part = most > 0 ? MIN (sms / most, 1) : 1;
  ScContention c = { .grade = SC_GRADE_ASSUMED };
  c.hold[SC_WORK_PRODUCT] = is_measured (product) ? share_of (product->value) * part : MIN (sms / MAX (device->sms.value, 1), 1);
  c.hold[SC_WORK_MEMORY] = is_measured (elementwise) ? share_of (elementwise->value) * part : memory;
  if (is_measured (product) && is_measured (elementwise))
    c.grade = SC_GRADE_MEASURED;
  return c;
}

ScContention
sc_contention (const ScDevice *device, const ScCollChoice *choice, ScCollKind kind, const ScGroupShape *shape, double bytes)
{
  const double memory = memory_share (device, choice, kind, shape, bytes);
  if (choice->row == &sc_collective_deepep)
    return of_sms (device, DEEPEP_SMS, DEEPEP_SMS, memory);
  const double sms = sc_nccl_blocks (choice, kind, shape, bytes);
  if (sms > 0)
    return of_sms (device, sms, sc_nccl_most_blocks (shape), memory);
  /* textbook: nobody says how many blocks; one number for all */
  const double share = share_of (device->hidden_slowdown.value);
  return (ScContention) { { share, share }, device->hidden_slowdown.grade };
}

ScContention
sc_contention_user_buffers (const ScDevice *device, const ScCollChoice *choice, ScCollKind kind, const ScGroupShape *shape, double bytes)
{
  return of_sms (device, kind == SC_COLL_SEND_RECEIVE ? RING_EXCHANGE_SMS : USER_BUFFER_SMS, sc_nccl_most_blocks (shape),
                 memory_share (device, choice, kind, shape, bytes));
}

const char *
sc_contention_text (const ScDevice *device)
{
  const gboolean product = is_measured (&device->hidden_slowdown), memory = is_measured (&device->memory_slowdown);
  if (product && memory)
    return NULL; /* nothing is assumed */
  if (product)
    return "memory-bound kernels beside collectives lose the bandwidth that these move";
  if (memory)
    return "products beside collectives lose the SMs of their channels";
  return "kernels beside collectives: products lose the SMs of their channels, memory-bound ones the bandwidth that they move";
}
