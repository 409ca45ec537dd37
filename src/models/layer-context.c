/* SPDX-License-Identifier: GPL-3.0-or-later */
/* layer-context.c - the attention core of ranks that have parts of each sequence (context parallelism; MODELLING 5.8, 6.2).
 *
 * A rank has chunks i and 2c - 1 - i of 2c (zig-zag), so that all ranks have as many causal pairs. How it sees the rest (plan.cp_comm):
 *   p2p         keys and values go round a ring, each exchange under the attention to what came before (Liu et al., Ring Attention,
 *               arXiv 2310.01889; NVIDIA/TransformerEngine pytorch/attention/.../context_parallel.py)
 *   all-gather  of keys and values, exposed (The Llama 3 Herd of Models, arXiv 2407.21783, 3.3.2)
 *   a2a         parts of the sequence are exchanged for parts of the heads, exposed (DeepSpeed-Ulysses, arXiv 2309.14509)
 *   a2a+p2p     heads inside groups of cp_a2a ranks, then a ring over the groups (USP, arXiv 2405.07719)
 *
 * A step of the ring is half a block: all queries against the first half of keys from a chunk pair before, or the second half of queries
 * against all keys from one behind.  The pairs are the same; the last rank has only steps of the first kind, which
 * correct all of the output, and the others wait for it: its list is everybody's.  Without zig-zag (ScFramework.ring_in_order) the last
 * rank has whole blocks. */
#include "models/layer-pass.h"

/* Those that pass keys and values round, and what one of them has of Q, K, V: heads and tokens (of all sequences). */
typedef struct
{
  ScCommKind comm;
  guint n;
  double q_bytes, kv_bytes, out_bytes, lse_bytes;
  ScAttentionShape whole; /* all of the sequences, heads of one */
} Ring;

static double
query_bytes (const Pass *p)
{
  return p->e * p->q * p->t;
}

static double
key_bytes (const Pass *p)
{
  return sc_pass_tensor_bytes (p, QK) - query_bytes (p);
}

static double
pairs_of (const ScAttentionShape *a)
{
  return a->pairs > 0 ? a->pairs : a->batch * sc_attention_pairs (a->seq, a->causal, a->window);
}

/* ---- ring ---- */

static void
ring_flash (Pass *p, const Ring *r, gboolean own, gboolean backward)
{
  ScAttentionShape part = r->whole;
  part.pairs = pairs_of (&r->whole) / ((double) r->n * r->n);
  part.queries = MAX (r->whole.seq / r->n, 1);
  part.seq = own || p->fw->ring_in_order ? part.queries : MAX (part.queries / 2, 1);
  if (!own && p->fw->ring_in_order)
    part.pairs *= 2;
  part.causal = own;
  if (backward)
    sc_pass_flash (p, own ? "attention backward" : "attention step backward", SC_KERNEL_FLASH_BACKWARD, &part);
  else
    sc_pass_flash (p, own ? "attention" : "attention step", SC_KERNEL_FLASH_FORWARD, &part);
}

static void
ring_exchange (Pass *p, const Ring *r, const char *name, double bytes)
{
  sc_pass_collective (p, SC_ITEM_COLLECTIVE_START, r->comm, SC_COLL_SEND_RECEIVE, name, bytes);
}

static void
ring_forward (Pass *p, const Ring *r)
{
  const double buffers = MIN (r->n - 1, 2) * r->kv_bytes;
  sc_pass_mem (p, SC_MEM_COMM, buffers);
  sc_pass_temp (p, r->out_bytes); /* of one step, before it is merged */
  sc_pass_temp (p, r->lse_bytes);
  ring_exchange (p, r, "KV exchange", r->kv_bytes);
  ring_flash (p, r, TRUE, FALSE);
  for (guint step = 1; step < r->n; step++)
    {
      sc_pass_wait (p, r->comm);
      if (step + 1 < r->n)
        ring_exchange (p, r, "KV exchange", r->kv_bytes);
      ring_flash (p, r, FALSE, FALSE);
      sc_pass_elementwise (p, "log-sum-exp merge", 3 * r->lse_bytes);
      sc_pass_elementwise (p, "output merge", 3 * r->out_bytes + 2 * r->lse_bytes);
    }
  sc_pass_temp (p, -r->out_bytes);
  sc_pass_temp (p, -r->lse_bytes);
  sc_pass_mem (p, SC_MEM_COMM, -buffers);
}

/* Begins with the keys that forward received last, so that its own come last: KV once less than there are ranks, and their gradients
 * too, one step behind. */
static void
ring_backward (Pass *p, const Ring *r)
{
  const double buffers = 4 * r->kv_bytes, parts = r->q_bytes + r->kv_bytes;
  sc_pass_mem (p, SC_MEM_COMM, buffers);
  sc_pass_temp (p, parts);
  for (guint step = 0; step < r->n; step++)
    {
      const gboolean first = step == 0, last = step + 1 == r->n;
      ring_exchange (p, r, first ? "KV exchange" : last ? "dKV exchange" : "KV and dKV exchange", (first || last ? 1 : 2) * r->kv_bytes);
      ring_flash (p, r, last, TRUE);
      sc_pass_wait (p, r->comm);
      if (first)
        continue;
      sc_pass_elementwise (p, "query gradient add", 3 * r->q_bytes);
      sc_pass_elementwise (p, "KV gradient add", 3 * r->kv_bytes / (last ? 1 : 2));
    }
  sc_pass_temp (p, -parts);
  sc_pass_mem (p, SC_MEM_COMM, -buffers);
}

/* ---- all-gather ---- */

/* Two kernels, one for each chunk; together they see as much on every rank. */
static void
chunks_flash (Pass *p, const char *name, ScKernelClass class)
{
  ScAttentionShape chunk = sc_pass_attention_shape (p);
  chunk.pairs = pairs_of (&chunk) / (2.0 * p->plan->cp);
  chunk.queries = MAX (chunk.seq / (2 * p->plan->cp), 1);
  sc_pass_flash (p, name, class, &chunk);
}

/* Keys and values of all ranks, temporaries: born, or, with @sign -1, gone. */
static void
put_keys (Pass *p, int sign)
{
  sc_pass_temp (p, sign * (double) p->plan->cp * key_bytes (p));
  sc_pass_temp (p, sign * (double) p->plan->cp * sc_pass_tensor_bytes (p, V));
}

static void
gather_keys (Pass *p)
{
  const double cp = p->plan->cp, keys = cp * key_bytes (p), values = cp * sc_pass_tensor_bytes (p, V);
  put_keys (p, 1);
  sc_pass_collective (p, SC_ITEM_COLLECTIVE, SC_COMM_CP, SC_COLL_ALL_GATHER, "key all-gather", keys);
  sc_pass_collective (p, SC_ITEM_COLLECTIVE, SC_COMM_CP, SC_COLL_ALL_GATHER, "value all-gather", values);
  put_keys (p, 1);
  sc_pass_operation (p, "KV reorder", SC_OP_COPY, 2 * (keys + values), 0); /* out of zig-zag */
  put_keys (p, -1);
}

static void
all_gather_forward (Pass *p)
{
  gather_keys (p);
  for (guint i = 0; i < 2; i++)
    chunks_flash (p, "attention", SC_KERNEL_FLASH_FORWARD);
  put_keys (p, -1);
}

static void
all_gather_backward (Pass *p)
{
  const double cp = p->plan->cp, keys = cp * key_bytes (p), values = cp * sc_pass_tensor_bytes (p, V), all = keys + values;
  gather_keys (p);
  put_keys (p, 1); /* the sum ... */
  put_keys (p, 1); /* ... and what one kernel adds to it */
  for (guint i = 0; i < 2; i++)
    {
      chunks_flash (p, "attention backward", SC_KERNEL_FLASH_BACKWARD);
      sc_pass_elementwise (p, "KV gradient add", 3 * all / 2); /* a chunk sees half of the keys in the mean */
    }
  sc_pass_operation (p, "KV gradient reorder", SC_OP_COPY, 2 * all, 0);
  put_keys (p, -1);
  put_keys (p, -1); /* the gathered ones */
  sc_pass_collective (p, SC_ITEM_COLLECTIVE, SC_COMM_CP, SC_COLL_REDUCE_SCATTER, "key gradient reduce", keys);
  sc_pass_collective (p, SC_ITEM_COLLECTIVE, SC_COMM_CP, SC_COLL_REDUCE_SCATTER, "value gradient reduce", values);
  put_keys (p, -1);
}

/* ---- all-to-all ---- */

static ScCommKind
a2a_comm (const Pass *p)
{
  return p->plan->cp_comm == SC_CP_HIERARCHICAL ? SC_COMM_CP_A2A : SC_COMM_CP;
}

static guint
a2a_ranks (const Pass *p)
{
  return p->plan->cp_comm == SC_CP_HIERARCHICAL ? p->plan->cp_a2a : p->plan->cp;
}

/* Where there are fewer KV heads than ranks, each is repeated before it is sent. */
static double
repeats (const Pass *p)
{
  return MAX ((double) a2a_ranks (p) / p->kv_heads, 1);
}

/* Heads for tokens, or back. */
static void
swap (Pass *p, const char *name, double bytes)
{
  sc_pass_temp (p, bytes);
  sc_pass_operation (p, "all-to-all permute", SC_OP_COPY, 2 * bytes, 0);
  sc_pass_collective (p, SC_ITEM_COLLECTIVE, a2a_comm (p), SC_COLL_ALL_TO_ALL, name, bytes);
  sc_pass_operation (p, "all-to-all permute", SC_OP_COPY, 2 * bytes, 0);
  sc_pass_temp (p, -bytes);
}

static ScAttentionShape
swapped_shape (const Pass *p)
{
  ScAttentionShape a = sc_pass_attention_shape (p);
  a.heads /= a2a_ranks (p);
  a.kv_heads = MAX (a.kv_heads / a2a_ranks (p), 1);
  return a;
}

static Ring
ring_of (const Pass *p)
{
  const gboolean swapped = p->plan->cp_comm == SC_CP_HIERARCHICAL;
  return (Ring) { .comm = swapped ? SC_COMM_CP_RING : SC_COMM_CP,
                  .n = swapped ? p->plan->cp / p->plan->cp_a2a : p->plan->cp,
                  .q_bytes = query_bytes (p),
                  .kv_bytes = (key_bytes (p) + sc_pass_tensor_bytes (p, V)) * (swapped ? repeats (p) : 1),
                  .out_bytes = sc_pass_tensor_bytes (p, PROJ_IN),
                  .lse_bytes = sc_pass_tensor_bytes (p, FLASH_LSE),
                  .whole = swapped ? swapped_shape (p) : sc_pass_attention_shape (p) };
}

static void
a2a_forward (Pass *p)
{
  swap (p, "query all-to-all", query_bytes (p));
  swap (p, "key all-to-all", key_bytes (p) * repeats (p));
  swap (p, "value all-to-all", sc_pass_tensor_bytes (p, V) * repeats (p));
  if (p->plan->cp_comm == SC_CP_HIERARCHICAL)
    {
      const Ring ring = ring_of (p);
      ring_forward (p, &ring);
    }
  else
    {
      const ScAttentionShape whole = swapped_shape (p);
      sc_pass_born (p, HEADS_OUT);
      sc_pass_flash (p, "attention", SC_KERNEL_FLASH_FORWARD, &whole);
    }
  swap (p, "output all-to-all", sc_pass_tensor_bytes (p, PROJ_IN));
  sc_pass_used (p, HEADS_OUT);
}

/* Unless the output was kept as it was before the exchange, it is exchanged once more beside its gradient. */
static void
a2a_backward (Pass *p)
{
  const double keys = key_bytes (p), values = sc_pass_tensor_bytes (p, V), output = sc_pass_tensor_bytes (p, PROJ_IN), more = repeats (p);
  const gboolean kept = sc_pass_tensor_bytes (p, HEADS_OUT) > 0;
  if (!kept)
    swap (p, "output all-to-all", output);
  swap (p, "output gradient all-to-all", output);
  sc_pass_temp (p, output);
  if (p->plan->cp_comm == SC_CP_HIERARCHICAL)
    {
      const Ring ring = ring_of (p);
      ring_backward (p, &ring);
    }
  else
    {
      const ScAttentionShape whole = swapped_shape (p);
      sc_pass_flash (p, "attention backward", SC_KERNEL_FLASH_BACKWARD, &whole);
    }
  if (kept)
    sc_pass_spent (p, HEADS_OUT);
  sc_pass_temp (p, -output);
  swap (p, "query gradient all-to-all", query_bytes (p));
  swap (p, "key gradient all-to-all", keys * more);
  swap (p, "value gradient all-to-all", values * more);
  if (more > 1)
    sc_pass_elementwise (p, "KV gradient sum", (1 + more) * (keys + values));
}

/* ---- by plan.cp_comm ---- */

void
sc_pass_context_forward (Pass *p)
{
  const Ring ring = ring_of (p);
  switch (p->plan->cp_comm)
    {
    case SC_CP_RING: ring_forward (p, &ring); return;
    case SC_CP_ALL_GATHER: all_gather_forward (p); return;
    case SC_CP_A2A:
    case SC_CP_HIERARCHICAL: a2a_forward (p); return;
    default: g_assert_not_reached ();
    }
}

void
sc_pass_context_backward (Pass *p)
{
  const Ring ring = ring_of (p);
  switch (p->plan->cp_comm)
    {
    case SC_CP_RING: ring_backward (p, &ring); return;
    case SC_CP_ALL_GATHER: all_gather_backward (p); return;
    case SC_CP_A2A:
    case SC_CP_HIERARCHICAL: a2a_backward (p); return;
    default: g_assert_not_reached ();
    }
}
