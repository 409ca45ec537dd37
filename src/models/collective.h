/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collective.h - a collective is a load on links and a time alone (FOLDING S2-S4).
 * Layer: models.  One algorithm is one file and one const row: where its connections run, what one of them carries,
 * how long it takes on an idle network, and, for tests, its single messages.  Which row a call takes, in which protocol and
 * how fast a library executes it, is models/nccl.h; without a library ("textbook") the closed form is the time. */
#pragma once
#include "models/fabric.h"
#include "models/layer.h"
#include "sim/messages.h"

struct _ScNcclVersion;
struct _ScNcclGpu;
struct _ScNcclNet;

/* How a library moves bytes (MODELLING 5.5): flags beside the data, or fences. */
typedef enum
{
  SC_PROTO_LL,     /* 8-byte lines, half of them flags */
  SC_PROTO_LL128,  /* 128-byte lines, 120 of them data */
  SC_PROTO_SIMPLE, /* chunks and fences */
  SC_N_PROTOS
} ScProtocol;

const char *sc_protocol_name (ScProtocol protocol);              /* "LL", "LL128", "Simple" */
gboolean    sc_protocol_find (const char *name, ScProtocol *ret); /* any case */
double      sc_protocol_wire (ScProtocol protocol);              /* bytes on the wire per byte of data */

/* The library that executes a group's calls, models/nccl.h; version NULL: none, closed forms are the times ("textbook"). */
typedef struct
{
  const struct _ScNcclVersion *version; /* its own constants: what it chooses */
  const struct _ScNcclGpu *gpu;         /* measured: what GPUs and their links make of it */
  const struct _ScNcclNet *net;         /* measured: what the network makes of it */
  gboolean nvls, sharp;                 /* switches that reduce and multicast: of NVLink, of the network */
} ScLibrary;

/* What a closed form needs to know of one group of ranks. */
typedef struct
{
  guint  n;               /* ranks */
  guint  n_domains;       /* NVLink domains (nodes, where there is no NVLink) they sit in */
  guint  per_domain;      /* most ranks in one of them */
  gboolean ragged;        /* runs of ranks in one domain, in rank order, are not n / n_domains long each */
  guint  n_channels;      /* rings that run side by side: one per rail across domains, one per set of lanes in a mesh; else 1 */
  guint  rails;           /* NICs of a domain that they use; 1 inside a domain */
  guint  hops_inter;      /* hops of one ring that leave a domain */
  guint  flows;           /* that each connection is cut into (hashed ECMP), every one over a path of its own; 0 or 1: none */
  double inter_bytes_per_s, intra_bytes_per_s; /* one connection's share of its narrowest link, this group alone; INFINITY: no such hop */
  double inter_latency_s, intra_latency_s;     /* one ring step */
  double pair_bytes_per_s; /* what one connection reaches between sockets (a rate cap); 0: no such limit */
  double launch_s;        /* fixed part */
  double node_share, rank_share; /* of tokens, what is left of one copy for each expert between nodes, and to ranks; 0: all (deepep) */
  ScLibrary library;
} ScGroupShape;

/* One connection of a group: @route is borrowed for the call.  Connections of one part advance in lockstep; parts come in
 * any order. */
typedef void (*ScHopFunc) (gpointer data, guint part, guint channel, guint position, const ScRoute *route);

#define SC_MAX_PARTS 24 /* log2 of the largest group, and some */

typedef struct _ScCollective ScCollective;
struct _ScCollective
{
  const char *name;    /* in reports and in `stepcast list` */
  const char *summary; /* one line for people */
  const char *source;  /* paper and section the closed form is from */
  guint       kinds;   /* 1 << ScCollKind of what it can do */
  double      max_bytes; /* only up to this size; INFINITY */
  guint       min_ranks;
  gboolean    on_request; /* never chosen where no library chooses; only by name */
  gboolean    own_kernels; /* not the library's: its closed form is its time */
  gboolean    at_once;    /* messages that wait for no others: their latency is a delay, and links alone pace them */

  /* Can a group of this shape run it at all?  NULL: yes.  If not, *ret_why says what is missing, in words. */
  gboolean (*possible) (ScCollKind kind, const ScGroupShape *shape, const char **ret_why);

  /* Parts of a call (FOLDING S2); NULL: one.  At most SC_MAX_PARTS. */
  guint (*n_parts) (ScCollKind kind, const ScGroupShape *shape);

  /* Calls @hop for each connection of the group @gpus: [n] global GPU ids in rank order.  NULL: puts nothing on links. */
  void (*walk) (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind, ScHopFunc hop, gpointer data);

  /* Bytes that one connection of @part carries in a call of @bytes (whole buffer): stripe x payload, linear in @bytes. */
  double (*connection_bytes) (ScCollKind kind, const ScGroupShape *shape, guint part, double bytes);

  /* Seconds on an idle network, latency and fill included: the literature's closed form over the shape's links. */
  double (*alone_s) (ScCollKind kind, const ScGroupShape *shape, double bytes);

  /* Share of the call's time that @part takes when alone, (0, 1]; NULL: all of it (phases that are pipelined). */
  double (*part_share) (ScCollKind kind, const ScGroupShape *shape, guint part);

  /* Hops on the critical path of a small message, inside domains and between them. */
  void (*path) (ScCollKind kind, const ScGroupShape *shape, double *ret_intra, double *ret_inter);

  /* The same call as single messages in @blocks blocks; NULL: this row has no such form.  @link_map: [n_links of the
   * fabric] link ids of the program, SC_NONE for links that are left out; @unit_links: the program's links have capacity 1,
   * so a connection counts 1 / capacity.  Free with sc_collective_messages_free(). */
  ScMessages *(*expand) (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind, double bytes, guint blocks,
                         ScTime latency, const guint32 *link_map, gboolean unit_links);
};

extern const ScCollective sc_collective_ring, sc_collective_chain, sc_collective_scalar, sc_collective_send, sc_collective_tree,
    sc_collective_nvls, sc_collective_nvls_tree, sc_collective_collnet, sc_collective_pat, sc_collective_halving_doubling,
    sc_collective_direct, sc_collective_all_to_all, sc_collective_pxn, sc_collective_deepep, sc_collective_hierarchical, sc_collective_send_receive;

const ScCollective *const *sc_collective_all (void);              /* NULL-ended */
const ScCollective        *sc_collective_find (const char *name); /* or NULL */
guint                      sc_collective_index (const ScCollective *row); /* in sc_collective_all() */
const char                *sc_coll_kind_name (ScCollKind kind);   /* "all-reduce", ... */
gboolean                   sc_coll_kind_find (const char *name, ScCollKind *ret); /* also all_reduce, allreduce, all_reduce_perf, ... */

/* Bytes per byte of the buffer that nccl-tests counts as moved: busbw = bytes / time x this (MODELLING 5.1). */
double sc_coll_bus_factor (ScCollKind kind, guint n);

/* Can @row do this call at all?  If not, *ret_why (may be NULL) says why. */
gboolean sc_collective_possible (const ScCollective *row, ScCollKind kind, const ScGroupShape *shape, double bytes,
                                 const char **ret_why);

/* Seconds per byte of the buffer that the narrowest links of a walk need: those inside domains, those on the way between
 * them.  Zero: there are none, or the row has not been walked. */
typedef struct
{
  double  intra_s_per_byte, inter_s_per_byte;
  guint32 intra_link, inter_link; /* of the fabric, or SC_NONE */
} ScBound;

/* What executes a call. */
typedef struct
{
  const ScCollective *row;
  ScProtocol protocol;  /* SIMPLE for textbook */
  guint  channels;      /* that the library opens for it; 0: textbook */
  double alone_s;       /* on an idle network */
  double latency_s;     /* of it, the part that does not hang on the bytes */
} ScCollChoice;

/* The row that takes this call; @row and @protocol (SC_N_PROTOS: any) force one.  Does not look at @row's walk yet: alone_s
 * is set by sc_collective_time().  FALSE: the forced row cannot, or there is none, *ret_why says why. */
gboolean sc_collective_choose (ScCollKind kind, const ScGroupShape *shape, double bytes, const ScCollective *row,
                               ScProtocol protocol, ScCollChoice *ret, const char **ret_why);

/* Fills in the times of @choice, whose row's walk has @bound. */
void sc_collective_time (ScCollChoice *choice, ScCollKind kind, const ScGroupShape *shape, double bytes, const ScBound *bound);

/* How a call enters the simulation: rate caps for calls of many rounds, a delay for single messages (S4). */
typedef struct
{
  double delay_s; /* before the flows */
  guint  n_parts; /* 0: nothing on links */
  struct
  {
    double bytes; /* on the wire of one connection */
    double cap;   /* bytes/s of one connection */
  } parts[SC_MAX_PARTS];
} ScCallForm;
void sc_collective_form (const ScCollChoice *choice, ScCollKind kind, const ScGroupShape *shape, double bytes, ScCallForm *ret);

static inline guint
sc_collective_n_parts (const ScCollective *row, ScCollKind kind, const ScGroupShape *shape)
{
  return row->walk == NULL ? 0 : row->n_parts != NULL ? row->n_parts (kind, shape) : 1;
}

/* Channels of a ring over @gpus and the members' order on each: position i of channel c is member
 * ret_order[c * n + i]; hop i goes from position i to position i + 1 (mod n).  Members of one domain are visited in
 * turn; channel c leaves and enters every domain by the c-th NIC that its members use.  Inside a mesh rings follow the links
 * between GPUs (models/mesh.h): a group of one node has as many as share no link; one of several nodes takes in each node a
 * path over links, where there is one. */
guint sc_ring_channels (const ScFabric *fabric, const guint32 *gpus, guint n);
guint sc_ring_rails (const ScFabric *fabric, const guint32 *gpus, guint n); /* NICs that they leave each domain by; 1 inside one */
void  sc_ring_order (const ScFabric *fabric, const guint32 *gpus, guint n, guint channel, guint32 *ret_order);
void  sc_ring_walk (const ScFabric *fabric, const guint32 *gpus, guint n, ScHopFunc hop, gpointer data);
void  sc_ring_hop (const ScFabric *fabric, const guint32 *gpus, guint n, guint channel, const guint32 *order, guint position,
                   ScRoute *ret);

/* For rows that pair the ranks of nodes rail by rail: several nodes, as many ranks on each. */
gboolean sc_rails_possible (ScCollKind kind, const ScGroupShape *shape, const char **ret_why);

/* All-to-alls that keep to their rails: connections inside a domain, and across between ranks of one rail. */
enum
{
  SC_RAILS_INSIDE,
  SC_RAILS_ACROSS,
  SC_RAILS_N_PARTS
};
guint    sc_rails_n_parts (ScCollKind kind, const ScGroupShape *shape);
void     sc_rails_walk (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind, ScHopFunc hop, gpointer data);
void     sc_rails_path (ScCollKind kind, const ScGroupShape *shape, double *ret_intra, double *ret_inter);
double   sc_rails_alone_s (ScCollKind kind, const ScGroupShape *shape, double bytes,
                           double (*connection_bytes) (ScCollKind kind, const ScGroupShape *shape, guint part, double bytes));
ScMessages *sc_rails_expand (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind, double bytes, guint blocks, ScTime latency,
                             const guint32 *link_map, gboolean unit_links);

/* The domains of a group: members [first[d], first[d + 1]) of rank order sit in domain d. */
typedef struct
{
  guint  n;     /* domains */
  guint *first; /* [n + 1] */
  guint  least; /* members of the smallest */
} ScDomains;
ScDomains sc_group_domains (const ScFabric *fabric, const guint32 *gpus, guint n);
void      sc_group_domains_clear (ScDomains *domains);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (ScDomains, sc_group_domains_clear)

/* NCCL's two binary trees over @n nodes (MODELLING 5.9): parent of @node in tree @tree (0 or 1), or SC_NONE for its root. */
guint32 sc_tree_parent (guint n, guint node, guint tree);

/* Time of @steps ring steps of @chunk bytes over a ring with the shape's hops (FOLDING 6), without the launch. */
double sc_ring_time_s (const ScGroupShape *shape, guint steps, double chunk);

/* Messages between every two members, all at once (direct, all-to-all): one part per kind of route, since those that climb
 * higher are slower: inside a domain, below one leaf, over one tier's up-links, over more. */
guint    sc_pairs_n_parts (ScCollKind kind, const ScGroupShape *shape);
void     sc_pairs_walk (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind, ScHopFunc hop, gpointer data);
void     sc_pairs_path (ScCollKind kind, const ScGroupShape *shape, double *ret_intra, double *ret_inter);
double   sc_pairs_part_share (ScCollKind kind, const ScGroupShape *shape, guint part);
double   sc_pairs_wire_s (const ScGroupShape *shape, double bytes);  /* @bytes: of one message; without latency */
double   sc_pairs_alone_s (const ScGroupShape *shape, double bytes); /* @bytes: of one message */
ScMessages *sc_pairs_expand (const ScFabric *fabric, const guint32 *gpus, guint n, double bytes, ScTime latency,
                             const guint32 *link_map, gboolean unit_links);

/* One rank's share of what its domain sends to others, and of what it moves inside: bytes/s. */
double sc_rank_inter_bytes_per_s (const ScGroupShape *shape);
double sc_rank_intra_bytes_per_s (const ScGroupShape *shape);

/* What a rank sends one other of its domain with: in a mesh one set of lanes, else all it has. */
double sc_pair_intra_bytes_per_s (const ScGroupShape *shape);

/* Do all domains hold as many ranks, one domain after another? */
static inline gboolean
sc_shape_is_even (const ScGroupShape *shape)
{
  return !shape->ragged && shape->n % shape->n_domains == 0 && shape->n / shape->n_domains == shape->per_domain;
}

/* Seconds per byte of the narrowest link where @n_channels rings share a buffer: the bound of ring-like rows. */
double sc_ring_bytes_per_s (const ScGroupShape *shape);

void sc_collective_messages_free (ScMessages *messages);
