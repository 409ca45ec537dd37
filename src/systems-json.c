/* SPDX-License-Identifier: GPL-3.0-or-later */
/* systems-json.c - rules from words to systems, and what the words say about network ports. */
#include "systems-json.h"
#include "device-json.h"
#include "library.h"
#include "models/nccl.h"
#include "topology-json.h"
#include <stdlib.h>
#include <string.h>

#define MAX_RULES 1000
#define MAX_NODES 1000000

/* Without a word about the version: what the newest GPUs were measured with is recent; the rest is of all years, for which a
 * release in the middle stands. */
#define NCCL_UNSAID_BLACKWELL "nccl-2.29"
#define NCCL_UNSAID "nccl-2.23"

static const struct
{
  const char *name, *summary;
} families[] = {
  [SC_FAMILY_NVSWITCH] = { "nvswitch", "one node, GPUs behind NVSwitch" },
  [SC_FAMILY_INFINIBAND] = { "infiniband", "several nodes over InfiniBand" },
  [SC_FAMILY_NVL72] = { "nvl72", "racks of one NVLink domain, and several of them" },
  [SC_FAMILY_SLINGSHOT] = { "slingshot", "several nodes over Slingshot" },
  [SC_FAMILY_CLOUD] = { "cloud", "several nodes over a cloud's Ethernet: EFA, TCPX, RoCE" },
  [SC_FAMILY_PCIE] = { "pcie", "one node, GPUs on PCIe, bridged in pairs or not" },
  [SC_FAMILY_MESH] = { "mesh", "one node, GPUs joined by links without a switch" },
  [SC_FAMILY_OTHER] = { "other", "systems that the sweep names itself" },
};
G_STATIC_ASSERT (G_N_ELEMENTS (families) == SC_N_FAMILIES);

const char *
sc_family_name (ScFamily family)
{
  return families[family].name;
}

const char *
sc_family_summary (ScFamily family)
{
  return families[family].summary;
}

/* ---- Rules ---- */

typedef struct
{
  guint min, max;
} Range;

typedef struct
{
  char     *gpu_text, *fabric_text, *note_text; /* patterns; NULL: anything */
  GRegex   *gpu, *fabric, *note;
  Range     nodes, gpus_per_node;
  char     *topology;
  char    **set; /* NULL-ended, or NULL */
  gboolean  nics;
  ScFamily  family;
} Rule;

typedef struct
{
  char   *words_text;
  GRegex *words;
  const char *transport; /* static */
  double  share, latency_s;
} Transport;

struct _ScSystems
{
  GPtrArray *rules;      /* Rule */
  GPtrArray *transports; /* Transport */
};

static void
rule_free (Rule *rule)
{
  g_free (rule->gpu_text);
  g_free (rule->fabric_text);
  g_free (rule->note_text);
  g_clear_pointer (&rule->gpu, g_regex_unref);
  g_clear_pointer (&rule->fabric, g_regex_unref);
  g_clear_pointer (&rule->note, g_regex_unref);
  g_free (rule->topology);
  g_strfreev (rule->set);
  g_free (rule);
}

static void
transport_free (Transport *transport)
{
  g_free (transport->words_text);
  g_clear_pointer (&transport->words, g_regex_unref);
  g_free (transport);
}

void
sc_systems_free (ScSystems *systems)
{
  if (systems == NULL)
    return;
  g_ptr_array_unref (systems->rules);
  g_ptr_array_unref (systems->transports);
  g_free (systems);
}

static const ScChoice family_choices[] = {
  { "nvswitch", SC_FAMILY_NVSWITCH, FALSE },   { "infiniband", SC_FAMILY_INFINIBAND, FALSE }, { "nvl72", SC_FAMILY_NVL72, FALSE },
  { "slingshot", SC_FAMILY_SLINGSHOT, FALSE }, { "cloud", SC_FAMILY_CLOUD, FALSE },           { "pcie", SC_FAMILY_PCIE, FALSE },
  { "mesh", SC_FAMILY_MESH, FALSE },           { .name = NULL },
};

static const ScField rule_fields[] = {
  { "gpu", SC_FIELD_STRING, .derived = "any", .offset = offsetof (Rule, gpu_text), .help = "Pattern of the GPU's words" },
  { "fabric", SC_FIELD_STRING, .derived = "any", .offset = offsetof (Rule, fabric_text), .help = "Pattern of the fabric's words" },
  { "note", SC_FIELD_STRING, .derived = "any", .offset = offsetof (Rule, note_text), .help = "Pattern of the note" },
  { "nodes", SC_FIELD_OTHER, .derived = "any", .help = "[least, most] nodes" },
  { "gpus_per_node", SC_FIELD_OTHER, .derived = "any", .help = "[least, most] GPUs used of a node" },
  { "topology", SC_FIELD_STRING, .offset = offsetof (Rule, topology), .help = "Topology, by name" },
  { "set", SC_FIELD_OTHER, .derived = "none", .help = "Overrides of the topology, an object of KEY: VALUE" },
  { "nics", SC_FIELD_BOOL, .fallback = "false", .offset = offsetof (Rule, nics),
    .help = "Number, rate and transport of the network ports are read from the fabric's words" },
  { "family", SC_FIELD_CHOICE, .choices = family_choices, .offset = offsetof (Rule, family), .help = "Kind of system, for the judgement" },
  { "why", SC_FIELD_STRING, .derived = "none", .offset = SC_FIELD_NOWHERE, .help = "Reason, for people" },
  { .key = NULL },
};
static const ScFieldTable rule_table = { .title = "systems: rules[]", .fields = rule_fields };

static const ScChoice transport_choices[] = {
  { "infiniband", SC_TRANSPORT_INFINIBAND, FALSE }, { "roce", SC_TRANSPORT_ROCE, FALSE }, { "efa", SC_TRANSPORT_EFA, FALSE },
  { "slingshot", SC_TRANSPORT_SLINGSHOT, FALSE },   { "tcpx", SC_TRANSPORT_TCPX, FALSE }, { "tcp", SC_TRANSPORT_TCP, FALSE },
  { .name = NULL },
};

static const ScField transport_fields[] = {
  { "words", SC_FIELD_STRING, .offset = offsetof (Transport, words_text), .help = "Pattern of the fabric's words" },
  { "transport", SC_FIELD_NAME, .choices = transport_choices, .offset = offsetof (Transport, transport), .help = "How the library talks" },
  { "share", SC_FIELD_NUMBER, .min = 0.01, .max = 1, .offset = offsetof (Transport, share), .help = "Of the line rate, for large messages" },
  { "latency", SC_FIELD_NUMBER, .unit = SC_UNIT_SECONDS, .min = 0, .max = 1, .offset = offsetof (Transport, latency_s),
    .help = "One ring step that leaves the node" },
  { .key = NULL },
};
static const ScFieldTable transport_table = { .title = "systems: transports[]", .fields = transport_fields };

static const ScField systems_fields[] = {
  { "transports", SC_FIELD_OTHER, .table = &transport_table, .help = "an array of transports by their words, the first that match" },
  { "rules", SC_FIELD_OTHER, .table = &rule_table, .help = "an array of rules, the first that match" },
  { .key = NULL },
};
static const ScFieldTable systems_table = { .title = "systems", .fields = systems_fields };

static gboolean
compile (const ScJson *json, const cJSON *object, const char *key, const char *pattern, GRegex **ret, GError **error)
{
  if (pattern == NULL)
    return TRUE;
  g_autoptr (GError) why = NULL;
  *ret = g_regex_new (pattern, G_REGEX_CASELESS, (GRegexMatchFlags) 0, &why);
  if (*ret == NULL)
    sc_json_fail (json, cJSON_GetObjectItemCaseSensitive (object, key), NULL, error, "%s", why->message);
  return *ret != NULL;
}

static gboolean
read_range (const ScJson *json, const cJSON *object, const char *key, Range *ret, GError **error)
{
  static const ScField bound = { .kind = SC_FIELD_COUNT, .min = 1, .max = MAX_NODES };
  *ret = (Range) { 1, G_MAXUINT };
  const cJSON *array = cJSON_GetObjectItemCaseSensitive (object, key);
  if (array == NULL)
    return TRUE;
  if (!cJSON_IsArray (array) || cJSON_GetArraySize (array) != 2)
    {
      g_autofree char *found = sc_json_found (array);
      sc_json_fail (json, array, NULL, error, "found %s, expected [least, most]", found);
      return FALSE;
    }
  return sc_fields_read_value (&bound, &rule_table, json, array->child, &ret->min, error)
         && sc_fields_read_value (&bound, &rule_table, json, array->child->next, &ret->max, error);
}

static gboolean
read_rule (ScSystems *systems, const ScJson *json, const cJSON *object, GError **error)
{
  Rule *const rule = g_new0 (Rule, 1);
  g_ptr_array_add (systems->rules, rule);
  const cJSON *set = cJSON_GetObjectItemCaseSensitive (object, "set");
  return sc_fields_check_object (json, object, error) && sc_fields_read (&rule_table, json, object, rule, error)
         && compile (json, object, "gpu", rule->gpu_text, &rule->gpu, error)
         && compile (json, object, "fabric", rule->fabric_text, &rule->fabric, error)
         && compile (json, object, "note", rule->note_text, &rule->note, error)
         && read_range (json, object, "nodes", &rule->nodes, error)
         && read_range (json, object, "gpus_per_node", &rule->gpus_per_node, error)
         && (set == NULL || (rule->set = sc_overrides_from_json (json, set, error)) != NULL);
}

static gboolean
read_transport (ScSystems *systems, const ScJson *json, const cJSON *object, GError **error)
{
  Transport *const transport = g_new0 (Transport, 1);
  g_ptr_array_add (systems->transports, transport);
  return sc_fields_check_object (json, object, error) && sc_fields_read (&transport_table, json, object, transport, error)
         && compile (json, object, "words", transport->words_text, &transport->words, error);
}

ScSystems *
sc_systems_from_json (const ScJson *json, GError **error)
{
  static const struct
  {
    const char *key;
    gboolean (*read) (ScSystems *systems, const ScJson *json, const cJSON *object, GError **error);
  } arrays[] = { { "transports", read_transport }, { "rules", read_rule } };

  if (!sc_fields_read (&systems_table, json, json->root, NULL, error))
    return NULL;
  g_autoptr (ScSystems) systems = g_new0 (ScSystems, 1);
  systems->rules = g_ptr_array_new_with_free_func ((GDestroyNotify) rule_free);
  systems->transports = g_ptr_array_new_with_free_func ((GDestroyNotify) transport_free);
  for (guint i = 0; i < G_N_ELEMENTS (arrays); i++)
    {
      const cJSON *array = cJSON_GetObjectItemCaseSensitive (json->root, arrays[i].key);
      if (!sc_fields_check_array (json, array, MAX_RULES, error))
        return NULL;
      for (const cJSON *object = array->child; object != NULL; object = object->next)
        if (!arrays[i].read (systems, json, object, error))
          return NULL;
    }
  return g_steal_pointer (&systems);
}

ScSystems *
sc_systems_load (const char *argument, GError **error)
{
  g_autoptr (ScJson) json = sc_library_load_json (SC_KIND_RULES, argument, error);
  return json != NULL ? sc_systems_from_json (json, error) : NULL;
}

/* ---- Words about network ports ---- */

/* Number @group of what @pattern finds in @words, or 0. */
static double
number_in (const char *pattern, const char *words, guint group)
{
  g_autoptr (GRegex) regex = g_regex_new (pattern, (GRegexCompileFlags) 0, (GRegexMatchFlags) 0, NULL);
  g_autoptr (GMatchInfo) match = NULL;
  if (!g_regex_match (regex, words, (GRegexMatchFlags) 0, &match))
    return 0;
  g_autofree char *digits = g_match_info_fetch (match, (int) group);
  return g_ascii_strtod (digits, NULL);
}

gboolean
sc_nics_of_words (const char *words, guint gpus_per_node, guint *ret_count, double *ret_gbit_per_s)
{
  static const struct
  {
    const char *pattern;
    double gbit_per_s;
  } generations[] = { { "\\bEDR\\b", 100 }, { "\\bHDR\\b", 200 }, { "\\bNDR\\b", 400 }, { "\\bXDR\\b", 800 }, { "\\bFDR\\b", 56 } };
  /* "8x NDR 400 Gb/s", "4x100 Gb/s"; Gb is bits, and GB/s of NVLink is not taken for it */
  const char *const several = "(\\d{1,4})\\s*x\\s*(?:[A-Za-z][\\w-]*\\s+){0,3}(\\d{1,4}(?:\\.\\d+)?)\\s*(?:Gb/s|Gbps|Gbit/s|G\\b)";
  const char *const each = "(\\d{1,4}(?:\\.\\d+)?)\\s*(?:Gb/s|Gbps|Gbit/s)[^;]*\\b(?:per|a|each|every) (?:GPU|rank)";
  double count = number_in (several, words, 1), rate = number_in (several, words, 2);
  if (rate <= 0 && (rate = number_in (each, words, 1)) > 0)
    count = gpus_per_node;
  if (rate <= 0)
    rate = number_in ("(\\d{1,4}(?:\\.\\d+)?)\\s*(?:Gb/s|Gbps|Gbit/s)", words, 1);
  for (guint i = 0; i < G_N_ELEMENTS (generations) && rate <= 0; i++)
    if (g_regex_match_simple (generations[i].pattern, words, (GRegexCompileFlags) 0, (GRegexMatchFlags) 0))
      {
        rate = generations[i].gbit_per_s;
        count = number_in ("(\\d{1,4})\\s*x\\s*(?:ConnectX\\S*\\s+)?[FEHNX]DR\\b", words, 1);
      }
  *ret_count = (guint) count;
  *ret_gbit_per_s = rate;
  return count > 0 || rate > 0;
}

/* ---- Finding ---- */

void
sc_system_clear (ScSystem *system)
{
  g_clear_pointer (&system->topology_name, g_free);
  g_clear_pointer (&system->set, g_strfreev);
  g_clear_pointer (&system->topology, sc_topology_free);
}

static gboolean
matches (GRegex *regex, const char *text)
{
  return regex == NULL || g_regex_match (regex, text != NULL ? text : "", (GRegexMatchFlags) 0, NULL);
}

static const Rule *
find_rule (const ScSystems *systems, const ScSystemWords *words)
{
  for (guint i = 0; i < systems->rules->len; i++)
    {
      const Rule *rule = g_ptr_array_index (systems->rules, i);
      if (words->nodes >= rule->nodes.min && words->nodes <= rule->nodes.max && words->gpus_per_node >= rule->gpus_per_node.min
          && words->gpus_per_node <= rule->gpus_per_node.max && matches (rule->gpu, words->gpu) && matches (rule->fabric, words->fabric)
          && matches (rule->note, words->note))
        return rule;
    }
  return NULL;
}

static void
add_all (GPtrArray *set, char **more)
{
  for (; more != NULL && *more != NULL; more++)
    g_ptr_array_add (set, g_strdup (*more));
}

static char **
as_strv (GPtrArray *set)
{
  g_autoptr (GPtrArray) copy = g_ptr_array_new ();
  for (guint i = 0; i < set->len; i++)
    g_ptr_array_add (copy, g_strdup (g_ptr_array_index (set, i)));
  g_ptr_array_add (copy, NULL);
  return (char **) g_ptr_array_free (g_steal_pointer (&copy), FALSE);
}

/* What the fabric's words say of the ports of @type's nodes. */
static void
add_nics (const ScSystems *systems, const ScSystemWords *words, const ScNodeType *type, GPtrArray *set)
{
  const char *const fabric = words->fabric != NULL ? words->fabric : "";
  const Transport *transport = NULL;
  for (guint i = 0; i < systems->transports->len && transport == NULL; i++)
    {
      const Transport *t = g_ptr_array_index (systems->transports, i);
      if (matches (t->words, fabric))
        transport = t;
    }
  if (transport == NULL)
    return;
  g_ptr_array_add (set, g_strdup_printf ("topology.node_types.%s.nics.transport=\"%s\"", type->name, transport->transport));
  g_autofree char *latency = sc_unit_format (transport->latency_s, SC_UNIT_SECONDS);
  g_ptr_array_add (set, g_strdup_printf ("topology.node_types.%s.nics.latency=\"%s\"", type->name, latency));
  guint count;
  double gbit_per_s;
  if (!sc_nics_of_words (fabric, words->whole_nodes ? words->gpus_per_node : type->gpus, &count, &gbit_per_s) || gbit_per_s <= 0)
    return;
  double bytes_per_s = gbit_per_s / 8 * 1e9 * transport->share;
  const guint gpus = words->whole_nodes ? words->gpus_per_node : type->gpus;
  if (count > gpus) /* ports of one GPU count as one */
    {
      bytes_per_s *= (double) count / gpus;
      count = gpus;
    }
  if (count > 0)
    g_ptr_array_add (set, g_strdup_printf ("topology.node_types.%s.nics.count=%u", type->name, count));
  g_autofree char *rate = sc_unit_format (bytes_per_s, SC_UNIT_BYTES_PER_S);
  g_ptr_array_add (set, g_strdup_printf ("topology.node_types.%s.nics.bandwidth=\"%s\"", type->name, rate));
}

/* "nccl-2.23": the row that stands for what the sweep was measured with. */
static const char *
nccl_of (const ScSystemWords *words, const ScNodeType *type)
{
  const ScNcclVersion *version = sc_nccl_version_of (words->nccl);
  if (version != NULL)
    return sc_nccl_version_name (version);
  return g_strcmp0 (type->device->family, "blackwell") == 0 ? NCCL_UNSAID_BLACKWELL : NCCL_UNSAID;
}

/* Does a rule say itself which card its words stand for? */
static gboolean
names_device (const Rule *rule)
{
  for (char **set = rule != NULL ? rule->set : NULL; set != NULL && *set != NULL; set++)
    if (strstr (*set, ".gpu=") != NULL)
      return TRUE;
  return FALSE;
}

/* Nodes of the GPUs that were named, and as many in each. */
static void
add_device (const ScSystemWords *words, const Rule *rule, const ScNodeType *type, GPtrArray *set)
{
  if (words->device != NULL && !names_device (rule) && !sc_device_is_called (type->device, words->device))
    g_ptr_array_add (set, g_strdup_printf ("topology.node_types.%s.gpu=\"%s\"", type->name, words->device));
  if (words->whole_nodes && words->nodes > 1 && type->gpus != words->gpus_per_node)
    g_ptr_array_add (set, g_strdup_printf ("topology.node_types.%s.gpus=%u", type->name, words->gpus_per_node));
}

gboolean
sc_systems_find (const ScSystems *systems, const ScSystemWords *words, ScSystem *ret, GError **error)
{
  const Rule *rule = find_rule (systems, words);
  if (rule == NULL && words->topology == NULL)
    {
      g_set_error (error, SC_INPUT_ERROR, SC_INPUT_ERROR_CONTENT, "no system is known for %s, %u of a node, %u node%s, \"%s\"", words->gpu,
                   words->gpus_per_node, words->nodes, words->nodes == 1 ? "" : "s", words->fabric != NULL ? words->fabric : "");
      return FALSE;
    }
  g_autoptr (GPtrArray) set = g_ptr_array_new_with_free_func (g_free);
  if (words->topology == NULL)
    add_all (set, rule->set);
  add_all (set, words->set);
  const char *name = words->topology != NULL ? words->topology : rule->topology;
  g_auto (GStrv) first = as_strv (set);
  g_autoptr (ScTopology) base = sc_topology_load (name, first, NULL, error);
  if (base == NULL)
    return FALSE;
  const ScNodeType *type = &base->types[base->runs[0].type];
  if (words->topology == NULL && rule->nics)
    add_nics (systems, words, type, set);
  if (base->n_runs == 1 && words->nodes > base->n_nodes)
    g_ptr_array_add (set, g_strdup_printf ("topology.nodes.0.count=%u", words->nodes));
  g_ptr_array_add (set, g_strdup_printf ("topology.collectives=%s", nccl_of (words, type)));
  add_device (words, rule, type, set);
  add_all (set, words->set);
  g_auto (GStrv) all = as_strv (set);
  ScTopology *topology = sc_topology_load (name, all, NULL, error);
  if (topology == NULL)
    return FALSE;
  *ret = (ScSystem) { .family = rule != NULL ? rule->family : SC_FAMILY_OTHER, .topology_name = g_strdup (name),
                      .set = g_steal_pointer (&all), .topology = topology };
  return TRUE;
}

gboolean
sc_systems_find_sweep (const ScSystems *systems, const ScSweep *sweep, ScSystem *ret, GError **error)
{
  const ScSystemWords words = { .gpu = sweep->gpu, .fabric = sweep->fabric, .note = sweep->note, .nodes = sweep->nodes, .gpus_per_node = sweep->gpus_per_node,
                                .nccl = sweep->nccl, .topology = sweep->topology, .set = sweep->set };
  return sc_systems_find (systems, &words, ret, error);
}
