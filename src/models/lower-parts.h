/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lower-parts.h - what the files of lowering share; nobody else includes it.
 * Layer: models.  Lower is the state of lowering one program; each function appends to the class that is being lowered. */
#pragma once
#include "models/lower.h"
#include "models/sharding.h"
#include "models/tape.h"

/* One op of a pass, or two: what is the same each time the pass runs. */
typedef struct
{
  guint8  kind;        /* ScItemKind */
  guint8  time;        /* ScTimeKind; MEM: ScMemKind */
  guint8  coll;        /* ScCollKind */
  guint8  comm;        /* ScCommKind */
  guint8  buffers;     /* collectives: in user buffers */
  guint8  experts;     /* KERNEL: the weights are of routed experts */
  guint8  work;        /* KERNEL: ScWorkKind */
  guint32 label;
  guint32 issue_ns;
  guint32 memory;      /* KERNEL: what it allocates and frees as it starts: memory set, or SC_NONE */
  gint64  value;       /* KERNEL: ps; MEM: bytes */
  union
  {
    double bytes;      /* collectives */
    double weights;    /* KERNEL: elements of the weights that it multiplies with; negative: of those whose gradient it makes */
  };
} PricedItem;

/* An item list priced on one kind of rank. */
typedef struct
{
  PricedItem *items;
  guint    n;
  GArray  *from;                /* the list of ScItem, borrowed */
  ScTime   grade_ps[SC_N_GRADES]; /* of one pass */
} Priced;

typedef struct
{
  const ScDevice *device;
  double  speed, host_factor;
  double  factor;       /* of kernels' times: of the micro-batch */
  Priced *layers;       /* [kinds * SC_N_PASSES] */
  guint   n_layers;     /* of them */
  Priced *rebuild;      /* [kinds], where they have it */
  Priced  embedding[SC_N_PASSES], head[SC_N_PASSES]; /* by ScPass */
  Priced  vocab[SC_N_SLOT_PASSES - SC_N_PASSES];
} Prices;

typedef struct
{
  ScCollKind kind;
  gboolean buffers;
  double  bytes;
  guint32 call;
} KnownCall;

typedef struct _LowerVocab LowerVocab; /* lower-vocab.c */
typedef struct _Merged Merged; /* lower-merge.c: a pass as few ops */

/* Parameters that are reduced (and gathered) together: units of one chunk, from the last one back. */
typedef struct
{
  guint   chunk, first_unit; /* lowest unit of the bucket: when its backward is done, the bucket is full ... */
  guint   nth;               /* ... or when so many products before: index of the last gradient in it, or LOWER_UNIT_END */
  guint64 params;
  guint   matrices;          /* pieces that are cut to tensors: those larger than a few vectors ... */
  double  matrix_params;     /* ... and their parameters */
  gboolean experts;          /* of routed experts, over their own group */
  guint32 gathered;          /* event, once issued */
  gboolean issued;           /* its gather, in this step ... */
  gboolean taken;            /* ... and waited for */
  gboolean reduced;          /* issued, in this step */
} Bucket;

#define LOWER_UNIT_END G_MAXUINT

typedef struct Lower
{
  const ScLowerInput *in;
  const ScPlan  *plan;
  const ScShardingRow *sharding;
  ScProgram     *p;
  ScPlacement    placement;
  ScOrders      *orders;
  GArray       **actions;   /* [pp] ScAction, where transfers are beside compute; else NULL */
  GPtrArray     *labels;
  GHashTable    *label_ids; /* text -> id + 1 */
  GArray        *prices;    /* Prices */
  GArray       **known;     /* [n_families] KnownCall */
  GPtrArray     *messages;
  GArray        *needs;     /* ScNeed */
  guint8        *may_wait;  /* [n_families] somebody shares a link with its calls, or its members are of several classes */
  guint8        *may_wait_quiet; /* ... in quiet slots */

  /* the class that is being lowered */
  guint32  rank, class_id;
  ScCoord  at;
  const Prices *price;
  guint    n_price_of;      /* kinds of micro-batches: by plan.microbatch_factors, and of each by the documents in them */
  guint   *price_of;        /* [n_price_of] index in prices */
  ScTime  *grade_ps;        /* [SC_N_GRADES] */
  guint32  host_mark;       /* event of the last SC_ITEM_HOST_MARK */
  GQueue   started[SC_N_COMMS]; /* events of collectives beside compute, as pointers */
  GArray  *marks;           /* ScSlotMark; NULL: nobody asked */
  guint8  *spared;          /* [chunks * m] micro-batches that recompute less; NULL: none */
  gboolean partial;         /* the pass is of a micro-batch that plan.partial_microbatches spares */
  gboolean quiet;           /* ... of a slot in which this class has no call of data parallelism under way */
  const ScSlot *slots;      /* of its order ... */
  guint    quiet_from, quiet_to; /* ... and those of them */
  GArray  *buckets;         /* Bucket */
  GArray  *dp_done;         /* guint32 events */
  GHashTable *merged;       /* const Priced *, and one byte on where it is quiet -> Merged */
  Merged **whole;           /* [n_whole: n_price_of * 2 * 2 * chunks * SC_N_PASSES] passes over a chunk, as they are asked for; second: of spared micro-batches; third: quiet */
  guint    n_whole;
  guint    factor;          /* of the current micro-batch: index in price_of */
  guint    packed;          /* ... kind by the documents in it */
  GHashTable *pairs;        /* two slots alike -> Merged */
  guint32  transfers[2][2]; /* labels of boundary transfers: [send][forward]; 0: not used yet */
  guint32  self;            /* a group of its own ... */
  GArray  *delays;          /* ... and its calls, guint32: each lasts another time or is of another kind */
  ScOpInfo info;
  guint    chunk, unit;     /* that a pass runs over ... */
  ScPass   pass;
  guint    products;        /* ... and of its products, those that made a gradient so far */
  gboolean reducing;        /* its buckets are reduced as they are full */
  GArray  *born;            /* guint8 [chunks x (layers + 2)]: units whose gradients are held until the step ends */
  double   born_bytes;
  GPtrArray *waiting;       /* GArray of ScItem, or NULL: [chunks * SC_N_PASSES] gradients that wait for the end of their pass, gone; as they are asked for */
  gpointer shard;           /* what the strategy keeps */
  LowerVocab *vocab;        /* the vocabulary is shared out; else NULL */
  guint    away;            /* lower-activations.c: layers whose saved tensors are on the host ... */
  guint32  trip;            /* ... and the event behind the copy that is on its way, or SC_NONE */
  ScTape  *tape;            /* of the class's stage, where it is the first of them; else NULL */
  guint32  copied_out;      /* event behind the last copy to the host, or SC_NONE */
} Lower;

/* What a data-parallel strategy does between the parts of a step; members may be NULL.  A unit is the embedding, a layer, or the head.
 * @last: the slot is the chunk's last one that makes gradients. */
struct ScShardingSteps
{
  /* About how many ops it adds to forward and backward of a unit with @products forward products in a micro-batch, which then stand apart at every
   * level of detail; NULL: it does so in few micro-batches.  @inside: kernels stand apart as well. */
  double (*unit_ops) (const ScPlan *plan, double products);
  gboolean inside;

  void (*begin) (Lower *l); /* behind the states, before the first slot */
  void (*end) (Lower *l);   /* frees Lower.shard */
  gboolean (*by_units) (const Lower *l, const ScSlot *slot, gboolean last); /* has something to do between the units of a pass */
  gboolean (*by_products) (const Lower *l); /* ... inside the unit that was begun */
  void (*before_unit) (Lower *l, const ScSlot *slot, guint unit, gboolean last);
  void (*before_product) (Lower *l, const PricedItem *item); /* a kernel with weights */
  void (*after_unit) (Lower *l, const ScSlot *slot, guint unit, gboolean last);
  void (*after_slot) (Lower *l, const ScSlot *slot, gboolean last);
  void (*before_optimizer) (Lower *l); /* all gradients are where the optimizer wants them */
  void (*after_optimizer) (Lower *l);

  /* Strategies with buckets (lower-data.c): the calls of one. */
  void (*reduce) (Lower *l, const Bucket *b);
  void (*gather) (Lower *l, ScStreamKind stream, const Bucket *b);
};

/* lower-links.c; [n_families], yours: Lower.may_wait and .may_wait_quiet */
guint8 *sc_lower_find_may_wait (const ScFold *fold);
guint8 *sc_lower_find_may_wait_quiet (const ScLowerInput *in);

/* lower-ops.c: items and calls become ops */
guint32 sc_lower_label (Lower *l, const char *text);
guint32 sc_lower_to_ns (double s);
Priced sc_lower_price_list (Lower *l, GArray *items, const ScDevice *device, double speed, double host_factor, double factor);
guint sc_lower_price_index (Lower *l, const ScDevice *device, double speed, double host_factor, double factor);
void sc_lower_enter_microbatch (Lower *l, guint microbatch); /* its prices, from here on */
void sc_lower_enter_slot (Lower *l, const ScSlot *slot); /* its micro-batch's prices, and what that recomputes */
void sc_lower_prices_clear (gpointer data);
guint32 sc_lower_item_call (Lower *l, const PricedItem *item);
guint sc_lower_layer_kind (const Lower *l, guint layer); /* index into in->items->kinds */
const Priced *sc_lower_layer_price (const Lower *l, guint layer, ScPass pass);
const Priced *sc_lower_layer_rebuild (const Lower *l, guint layer);
guint sc_lower_rebuilt_from (const Lower *l, guint layer); /* first layer that is rebuilt before the backward of @layer, or @layer */
ScTimeKind sc_lower_comm_time (ScCommKind kind);
double sc_lower_alone_ps (const Lower *l, guint32 call);
ScStreamKind sc_lower_stream_beside (ScCommKind comm);
gboolean sc_lower_may_wait (const Lower *l, ScCommKind kind);
guint32 sc_lower_call_of (Lower *l, guint32 comm_id, ScCollKind kind, double bytes);
void sc_lower_put_work (Lower *l, const PricedItem *item);
void sc_lower_put_call (Lower *l, ScStreamKind stream, guint32 call, guint32 text, guint32 issue_ns);
void sc_lower_put_order (Lower *l, ScStreamKind after, ScStreamKind stream);
guint32 sc_lower_put_record (Lower *l, ScStreamKind stream);
void sc_lower_put_mem (Lower *l, ScStreamKind stream, ScMemKind kind, double bytes);
void sc_lower_put_tensor (Lower *l, ScStreamKind stream, ScMemKind kind, double bytes, const char *name); /* the same, with a name */
void sc_lower_put_listed (Lower *l, ScStreamKind stream, ScMemKind kind, GArray *items, double bytes); /* tensors of a kind, @bytes in all, as @items list them */
void sc_lower_put_state (Lower *l, ScTapeKind when, ScMemKind kind, double bytes, const char *name); /* before the step begins */
void sc_lower_put_state_parts (Lower *l, ScTapeKind when, ScMemKind kind, const GArray *parts, double sign, const char *name); /* each of double @parts a tensor of its own */
void sc_lower_tape_list (Lower *l, const Priced *priced, guint from, guint to); /* a pass runs: its items [from .. to) */
void sc_lower_tape_mark (Lower *l, ScTapeKind kind);
guint32 sc_lower_issue_ns (const Lower *l, ScTimeKind time);
void sc_lower_put_item (Lower *l, const PricedItem *item, guint phase);
void sc_lower_put_pass (Lower *l, const Priced *priced, guint phase);
void sc_lower_host_wait (Lower *l, guint32 event);
void sc_lower_host_busy (Lower *l, guint32 issue_ns);
gboolean sc_lower_has_host (const Lower *l); /* does issuing cost time? */
guint32 sc_lower_read_ns (const Lower *l);   /* host time of reading what the GPU made, once it is there */

/* lower-kept.c: what libraries keep for the whole run */
void sc_lower_put_kept (Lower *l);
/* The states of a strategy that keeps whole weights, tensor by tensor in the order in which they are made; bytes of each parameter.  FALSE: that is not
 * known of the framework, or of the plan. */
gboolean sc_lower_put_states_by_tensor (Lower *l, ScStateBytes each, ScStateBytes expert);
/* Copies of 16-bit gradients in fp32, on which the step is taken, born or (@sign -1) gone. */
void sc_lower_put_step_copies (Lower *l, double sign);

/* lower-merge.c: passes as few ops */
Merged *sc_lower_merge (Lower *l, const Priced *const *lists, guint n);
void sc_lower_merged_free (Merged *merged);
void sc_lower_put_merged (Lower *l, const Merged *merged, guint phase);
guint sc_lower_chunk_lists (const Lower *l, guint chunk, ScPass pass, const Priced **ret, guint *ret_layers);
void sc_lower_put_unit (Lower *l, const Priced *priced, guint phase);
gboolean sc_lower_put_whole (Lower *l, guint chunk, ScPass pass, guint phase);

void sc_lower_put_copy (Lower *l, ScStreamKind stream, ScTimeKind time, const char *name, double bytes); /* an elementwise kernel */

/* lower-pair.c: two passes overlapped */
void sc_lower_put_pair (Lower *l, const ScSlot *first, const ScSlot *second);

/* lower-data.c: data parallelism, as Lower.sharding has it */
guint64 sc_lower_layer_params (const ScWorkload *workload, guint layer);  /* that one rank holds, but routed experts ... */
guint64 sc_lower_layer_experts (const ScWorkload *workload, guint layer); /* ... and those */
guint64 sc_lower_embedding_params (const ScWorkload *workload); /* of the first stage */
guint64 sc_lower_head_params (const ScWorkload *workload); /* with modules that predict further tokens, but their routed experts ... */
guint64 sc_lower_head_experts (const ScWorkload *workload); /* ... and those */
guint sc_lower_n_units (const Lower *l, guint chunk);
guint sc_lower_nth_chunk (const Lower *l, guint i);
guint64 sc_lower_unit_params (const Lower *l, guint chunk, guint unit, gboolean experts);
const Priced *sc_lower_unit_price (const Lower *l, guint chunk, guint unit, ScPass pass);
void sc_lower_data_begin (Lower *l);
void sc_lower_data_end (Lower *l);
gboolean sc_lower_by_units (const Lower *l, const ScSlot *slot, gboolean last);
gboolean sc_lower_by_products (const Lower *l);
void sc_lower_before_unit (Lower *l, const ScSlot *slot, guint unit, gboolean last);
void sc_lower_before_product (Lower *l, const PricedItem *item);
void sc_lower_after_unit (Lower *l, const ScSlot *slot, guint unit, gboolean last);
void sc_lower_after_slot (Lower *l, const ScSlot *slot, gboolean last);
void sc_lower_before_optimizer (Lower *l);
void sc_lower_after_optimizer (Lower *l);

/* lower-host.c: what lives in host memory */
gboolean sc_lower_offloads_optimizer (const Lower *l);
gboolean sc_lower_offloads_params (const Lower *l);
void sc_lower_put_host_copy (Lower *l, gboolean in, const char *name, double bytes); /* on the stream for its direction */
void sc_lower_put_out (Lower *l, ScStreamKind after, const char *name, double bytes); /* to the host, behind what is on @after */
void sc_lower_put_host_step (Lower *l, double owned);

/* lower-activations.c: what layers save, in host memory between forward and backward */
gboolean sc_lower_offloads_activations (const ScPlan *plan);
void sc_lower_activations_begin (Lower *l);
void sc_lower_activations_before_unit (Lower *l, const ScSlot *slot, guint unit);
void sc_lower_activations_after_unit (Lower *l, const ScSlot *slot, guint unit);

/* ... of strategies with buckets: steps and what they are made of */
guint32 sc_lower_data_comm (const Lower *l, gboolean experts); /* SC_NONE: there is nobody to share with */
void sc_lower_data_call (Lower *l, ScStreamKind stream, guint32 comm, ScCollKind kind, double bytes, const char *name);
gboolean sc_bucket_by_units (const Lower *l, const ScSlot *slot, gboolean last);
gboolean sc_bucket_by_products (const Lower *l);
void sc_bucket_before_unit (Lower *l, const ScSlot *slot, guint unit, gboolean last);
void sc_bucket_before_product (Lower *l, const PricedItem *item);
void sc_bucket_after_unit (Lower *l, const ScSlot *slot, guint unit, gboolean last);
void sc_bucket_before_optimizer (Lower *l);
void sc_bucket_after_optimizer (Lower *l);
void sc_bucket_after_slot (Lower *l, const ScSlot *slot, gboolean last);
void sc_lower_put_reduce_chunk (Lower *l, guint chunk);
void sc_lower_put_gathers (Lower *l, guint chunk, guint n);
gboolean sc_lower_gathers_ahead (const Lower *l);

/* lower-vocab.c: a vocabulary that the pipeline's ranks share out */
void sc_lower_vocab_begin (Lower *l); /* before the slots of a class */
void sc_lower_vocab_end (Lower *l);
void sc_lower_put_broadcast (Lower *l, const ScSlot *slot);
void sc_lower_put_sum (Lower *l, const ScSlot *slot);
void sc_lower_put_vocab_slot (Lower *l, const ScSlot *slot);
void sc_lower_vocab_before (Lower *l, const ScSlot *slot);
guint64 sc_lower_vocab_params (const ScWorkload *workload); /* that each rank holds of both tables; 0: it is not shared out */

/* lower-pipeline.c: the schedule */
void sc_lower_put_slots (Lower *l);
