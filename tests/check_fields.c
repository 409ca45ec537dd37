/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_fields.c - JSON is read strictly, and a table of fields reads, checks and documents an object. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include "device-json.h"
#include "topology-json.h"
#include "workload-json.h"

/* ---- JSON ---- */

static const char *const valid_json[] = {
  "{}",
  " \t\r\n{ } \n",
  "\357\273\277{}", /* byte-order mark */
  "{\"a\":[],\"b\":{},\"c\":[1,-0,0.5,1e9,1E-9],\"d\":\"\\u00e9\\n\\ud83d\\ude00\",\"e\":[true,false,null]}",
};

START_TEST (valid_json_is_read)
{
  g_autoptr (GError) error = NULL;
  /* \n in a string is a control character: valid JSON, but no text for us. */
  const gboolean control = strstr (valid_json[_i], "\\n\\u") != NULL;
  g_autoptr (ScJson) json = sc_json_parse ("f.json", valid_json[_i], strlen (valid_json[_i]), &error);
  if (control)
    ck_assert_str_eq (error->message, "f.json: /d: found a string with a control character, expected none");
  else
    ck_assert_ptr_nonnull (json);
}
END_TEST

static const struct
{
  const char *text;
  const char *message;
} bad_json[] = {
  { "", "f.json:1:1: found the end of the text, expected a value" },
  { "{", "f.json:1:2: found the end of the text, expected a key in double quotes" },
  { "{\"a\":1", "f.json:1:7: found the end of the text, expected ',' or '}'" },
  { "{\"a\" 1}", "f.json:1:6: found '1', expected ':' behind the key" },
  { "{\"a\":1,}", "f.json:1:8: found '}', expected a key in double quotes (no comma before a closing bracket)" },
  { "{\"a\":[1,]}", "f.json:1:9: found ']', expected a value (no comma before a closing bracket)" },
  { "{\"a\":[1 2]}", "f.json:1:9: found '2', expected ',' or ']'" },
  { "{\"a\":[1}", "f.json:1:8: found '}', expected ',' or ']' (no comma before a closing bracket)" },
  { "{a:1}", "f.json:1:2: found a, expected a key in double quotes" },
  { "{'a':1}", "f.json:1:2: found ''', expected a key in double quotes (strings are written in double quotes)" },
  { "{\"a\":NaN}", "f.json:1:6: found NaN, expected a value (JSON has no NaN and no infinity)" },
  { "{\"a\":-Infinity}", "f.json:1:7: found Infinity, expected a digit (JSON has no NaN and no infinity)" },
  { "{\"a\":1e400}", "f.json:1:6: found 1e400, expected a number below 1.8e308" },
  { "{\"a\":01}", "f.json:1:6: found a number that starts with 0, expected none or a decimal point behind it" },
  { "{\"a\":1.}",
    "f.json:1:8: found '}', expected a digit behind the decimal point (no comma before a closing bracket)" },
  { "{\"a\":+1}", "f.json:1:6: found '+', expected a value" },
  { "{\"a\":1e}", "f.json:1:8: found '}', expected a digit in the exponent (no comma before a closing bracket)" },
  { "{\"a\":truely}", "f.json:1:6: found truely, expected a value" },
  { "{} x", "f.json:1:4: found x, expected the end of the text" },
  { "{}{}", "f.json:1:3: found '{', expected the end of the text" },
  { "// hello\n{}", "f.json:1:1: found '/', expected a value (JSON has no comments; use a key \"comment\")" },
  { "{\n  \"a\": \"\303\251\",\n  \"\303\251\": x\n}", "f.json:3:8: found x, expected a value" },
  { "{\"a\":\"b", "f.json:1:8: found the end of the text, expected '\"' at the end of the string" },
  { "{\"a\":\"\t\"}", "f.json:1:7: found a control character (0x09) in a string, expected none" },
  { "{\"a\":\"\\x\"}",
    "f.json:1:7: found an unknown escape, expected one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX" },
  { "{\"a\":\"\\u12g4\"}", "f.json:1:7: found \\u, expected four hexadecimal digits behind it" },
  { "{\"a\":\"\\u0000\"}", "f.json:1:7: found \\u0000, expected no NUL in a string" },
  { "{\"a\":\"\\ud800\"}", "f.json:1:7: found half of a surrogate pair, expected both" },
  { "{\"a\":\"\\ud800\\u0041\"}", "f.json:1:7: found half of a surrogate pair, expected both" },
  { "{\"a\":\"\377\"}", "f.json:1:7: found byte 0xff, expected valid UTF-8" },
  { "\177ELF", "f.json:1:1: found byte 0x7f, expected a value" },
  { "[]", "f.json: /: found an array, expected an object" },
  { "{\"a\":{\"b/c~d\":1,\"b/c~d\":2}}", "f.json: /a/b~1c~0d: found this key twice, expected it once" },
  { "{\"a\":[0,{\"b\":1,\"b\":2}]}", "f.json: /a/1/b: found this key twice, expected it once" },
  { "{\"a\\u0007\":1}", "f.json: /: found a key with a control character, expected none" },
};

START_TEST (bad_json_is_refused_with_its_place)
{
  g_autoptr (GError) error = NULL;
  ck_assert_ptr_null (sc_json_parse ("f.json", bad_json[_i].text, strlen (bad_json[_i].text), &error));
  ck_assert_str_eq (error->message, bad_json[_i].message);
}
END_TEST

START_TEST (a_nul_byte_is_refused)
{
  g_autoptr (GError) error = NULL;
  ck_assert_ptr_null (sc_json_parse ("f.json", "{}\0", 3, &error));
  ck_assert_str_eq (error->message, "f.json:1:3: found byte 0x00, expected the end of the text");
}
END_TEST

START_TEST (a_long_number_is_refused)
{
  g_autoptr (GString) text = g_string_new ("{\"a\":1");
  for (guint i = 0; i < 70; i++)
    g_string_append_c (text, '0');
  g_string_append_c (text, '}');
  g_autoptr (GError) error = NULL;
  ck_assert_ptr_null (sc_json_parse ("f.json", text->str, text->len, &error));
  ck_assert_str_eq (error->message, "f.json:1:6: found a number of 71 characters, expected at most 60");
}
END_TEST

/* 64 levels are read, one more and a million more are refused without recursion. */
START_TEST (nesting_is_bounded)
{
  static const guint depths[] = { 63, 64, 1000000 };
  for (guint i = 0; i < G_N_ELEMENTS (depths); i++)
    {
      g_autoptr (GString) text = g_string_new ("{\"a\":");
      for (guint d = 0; d < depths[i]; d++)
        g_string_append_c (text, '[');
      for (guint d = 0; d < depths[i]; d++)
        g_string_append_c (text, ']');
      g_string_append_c (text, '}');
      g_autoptr (GError) error = NULL;
      g_autoptr (ScJson) json = sc_json_parse ("f.json", text->str, text->len, &error);
      if (i == 0)
        ck_assert_ptr_nonnull (json);
      else
        ck_assert_str_eq (error->message,
                          "f.json:1:69: found more than 64 nested objects and arrays, expected at most that many");
    }
}
END_TEST

START_TEST (the_number_of_values_is_bounded)
{
  g_autoptr (GString) text = g_string_new ("{\"a\":[0");
  for (guint i = 0; i < SC_JSON_MAX_VALUES; i++)
    g_string_append (text, ",0");
  g_string_append (text, "]}");
  g_autoptr (GError) error = NULL;
  ck_assert_ptr_null (sc_json_parse ("f.json", text->str, text->len, &error));
  ck_assert_ptr_nonnull (strstr (error->message, "found more than 1000000 values"));
}
END_TEST

static const struct
{
  const char *word, *nearest;
} slips[] = {
  { "tpp", "tp" },
  { "TP", "tp" },
  { "golbal_batch", "global_batch" },
  { "recompte", "recompute" },
  { "glob", "global_batch" },
  { "xyz", NULL },
  { "", NULL },
};

START_TEST (slips_find_their_word)
{
  static const char *const words[] = { "tp", "pp", "global_batch", "micro_batch", "recompute", NULL };
  const char *nearest = sc_nearest (slips[_i].word, words);
  if (slips[_i].nearest == NULL)
    ck_assert_ptr_null (nearest);
  else
    ck_assert_str_eq (nearest, slips[_i].nearest);
}
END_TEST

/* ---- Tables ---- */

typedef enum
{
  COLOUR_RED,
  COLOUR_BLUE
} Colour;

typedef struct
{
  gboolean flag;
  guint count;
  guint64 large;
  double number;
  char *text;
  Colour colour;
  ScCited rate;
  ScCurve curve;
  guint inner;
} Thing;

static const ScChoice colours[] = {
  { "red", COLOUR_RED, FALSE }, { "blue", COLOUR_BLUE, FALSE }, { "green", 0, TRUE }, { NULL, 0, FALSE }
};

#define THING(member) .offset = offsetof (Thing, member)

static const ScField inner_fields[] = { { "inner", SC_FIELD_COUNT, .min = 1, .max = 9, THING (inner), .help = "Inner" },
                                        { .key = NULL } };
static const ScFieldTable inner_table = { .title = "inner", .fields = inner_fields };

static const ScField thing_fields[] = {
  { "flag", SC_FIELD_BOOL, .fallback = "true", THING (flag), .help = "A flag" },
  { "count", SC_FIELD_COUNT, .min = 1, .max = 4294967295.0, THING (count), .help = "A count" },
  { "large", SC_FIELD_COUNT64, .min = 0, .max = 0x1p53, .fallback = "7", THING (large), .help = "A large count" },
  { "number", SC_FIELD_NUMBER, .min = -1, .max = 1, .fallback = "0.5", THING (number), .help = "A number" },
  { "text", SC_FIELD_STRING, .fallback = "none", THING (text), .help = "A text" },
  { "colour", SC_FIELD_CHOICE, .choices = colours, .fallback = "blue", THING (colour), .help = "A colour" },
  { "rate", SC_FIELD_CITED, .unit = SC_UNIT_BYTES_PER_S, .min = 1e6, .max = 1e12, .fallback = "1 GB/s", THING (rate),
    .help = "A rate" },
  { "curve", SC_FIELD_CURVE, .unit = SC_UNIT_FLOPS, .min = 1e9, .max = 1e15, .derived = "none", THING (curve),
    .help = "A curve" },
  { "object", SC_FIELD_OBJECT, .table = &inner_table, .derived = "none", .help = "An object" },
  { "later", SC_FIELD_LATER, .fallback = "1", .help = "Not yet" },
  { .key = NULL },
};
static const ScFieldTable thing_table = { .title = "thing", .fields = thing_fields, .plain_cited = TRUE };
static const ScFieldTable strict_table = { .title = "thing", .fields = thing_fields, .null_is_absent = TRUE };

static void
thing_clear (Thing *thing)
{
  g_free (thing->text);
  sc_cited_clear (&thing->rate);
  sc_curve_clear (&thing->curve);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Thing, thing_clear)

/* @text with ' for ". */
static gboolean
read_thing (const ScFieldTable *table, const char *text, Thing *thing, GError **error)
{
  g_autofree char *quoted = g_strdelimit (g_strdup (text), "'", '"');
  g_autoptr (ScJson) json = sc_json_parse ("f.json", quoted, strlen (quoted), error);
  ck_assert_ptr_nonnull (json);
  return sc_fields_read (table, json, json->root, thing, error);
}

START_TEST (defaults_are_applied)
{
  g_auto (Thing) thing = { 0 };
  ck_assert (read_thing (&thing_table, "{'count': 3}", &thing, NULL));
  ck_assert (thing.flag);
  ck_assert_uint_eq (thing.count, 3);
  ck_assert_uint_eq (thing.large, 7);
  ck_assert_double_eq (thing.number, 0.5);
  ck_assert_str_eq (thing.text, "none");
  ck_assert_int_eq (thing.colour, COLOUR_BLUE);
  ck_assert_double_eq (thing.rate.value, 1e9);
  ck_assert_int_eq (thing.rate.grade, SC_GRADE_ASSUMED);
  ck_assert_uint_eq (thing.curve.n, 0);
  ck_assert_uint_eq (thing.inner, 0);
}
END_TEST

START_TEST (every_kind_is_read)
{
  g_auto (Thing) thing = { 0 };
  ck_assert (
      read_thing (&thing_table,
                  "{'flag': false, 'count': 4294967295, 'large': 9007199254740992, 'number': -0.25, 'text': 'hi',"
                  " 'colour': 'red', 'rate': {'value': '400 Gb/s', 'grade': 'measured', 'source': 'here'},"
                  " 'curve': {'points': [[1, '1 TFLOP/s'], [8, '2 TFLOP/s']], 'grade': 'fitted', 'source': 's'},"
                  " 'object': {'inner': 5, 'comment': 'any'}, 'later': null, 'comment': ['free', 'text']}",
                  &thing, NULL));
  ck_assert (!thing.flag);
  ck_assert_uint_eq (thing.count, 4294967295u);
  ck_assert_uint_eq (thing.large, G_GUINT64_CONSTANT (9007199254740992));
  ck_assert_double_eq (thing.number, -0.25);
  ck_assert_str_eq (thing.text, "hi");
  ck_assert_int_eq (thing.colour, COLOUR_RED);
  ck_assert_double_eq (thing.rate.value, 50e9);
  ck_assert_int_eq (thing.rate.grade, SC_GRADE_MEASURED);
  ck_assert_str_eq (thing.rate.source, "here");
  ck_assert_uint_eq (thing.curve.n, 2);
  ck_assert_double_eq (thing.curve.x[1], 8);
  ck_assert_double_eq (thing.curve.y[1], 2e12);
  ck_assert_str_eq (thing.curve.source, "s");
  ck_assert_uint_eq (thing.inner, 5);
}
END_TEST

static const struct
{
  const char *text;
  const char *message; /* behind "f.json: " */
} bad_things[] = {
  { "{}", "/count: missing, expected a whole number" },
  { "{'count': null}", "/count: found null, expected a whole number" },
  { "{'count': 1.5}", "/count: found 1.5, expected a whole number" },
  { "{'count': '3'}", "/count: found \"3\", expected a whole number without quotes" },
  { "{'count': '30%'}", "/count: found \"30%\", expected a whole number (percent are not accepted: try 0.3)" },
  { "{'count': 0}", "/count: found 0, expected 1 to 4294967295" },
  { "{'count': -1}", "/count: found -1, expected 1 to 4294967295" },
  { "{'count': 4294967296}", "/count: found 4294967296, expected 1 to 4294967295" },
  { "{'count': 1e300}", "/count: found 1e+300, expected 1 to 4294967295" },
  { "{'count': []}", "/count: found an array, expected a whole number" },
  { "{'count': 1, 'flag': 1}", "/flag: found 1, expected true or false" },
  { "{'count': 1, 'flag': 'true'}", "/flag: found \"true\", expected true or false" },
  { "{'count': 1, 'number': 2}", "/number: found 2, expected -1 to 1" },
  { "{'count': 1, 'text': ''}", "/text: found a text of 0 bytes, expected 1 to 4000" },
  { "{'count': 1, 'text': 5}", "/text: found 5, expected a text in double quotes" },
  { "{'count': 1, 'colour': 'bleu'}", "/colour: found \"bleu\", expected red or blue (did you mean \"blue\"?)" },
  { "{'count': 1, 'colour': 'green'}", "/colour: found \"green\", which is not modelled yet, expected red or blue" },
  { "{'count': 1, 'colour': 0}", "/colour: found 0, expected red or blue" },
  { "{'count': 1, 'rate': 450}", "/rate: found 450, expected a bandwidth with a unit (try \"450 GB/s\")" },
  { "{'count': 1, 'rate': '450'}", "/rate: found \"450\", expected a bandwidth with a unit (try \"450 GB/s\")" },
  { "{'count': 1, 'rate': '2 TB/s'}", "/rate: found \"2 TB/s\", expected 1 MB/s to 1 TB/s" },
  { "{'count': 1, 'rate': []}", "/rate: found an array, expected a bandwidth with a unit such as \"25 GB/s\"" },
  { "{'count': 1, 'rate': {}}", "/rate/value: missing, expected a bandwidth with a unit" },
  { "{'count': 1, 'rate': {'value': '1 GB/s', 'grade': 'guess'}}",
    "/rate/grade: found \"guess\", expected measured, datasheet, fitted or assumed" },
  { "{'count': 1, 'rate': {'valeu': '1 GB/s'}}", "/rate/valeu: unknown key, did you mean \"value\"?" },
  { "{'count': 1, 'curve': {'points': []}}", "/curve/points: found an array, expected at least one point" },
  { "{'count': 1, 'curve': {'points': [[1]]}}",
    "/curve/points/0: found an array, expected a pair [x, \"312 TFLOP/s\"]" },
  { "{'count': 1, 'curve': {'points': [[2, '1 TFLOP/s'], [2, '1 TFLOP/s']]}}",
    "/curve/points/1/0: found 2, expected more than in the point before" },
  { "{'count': 1, 'object': 3}", "/object: found 3, expected an object" },
  { "{'count': 1, 'object': {}}", "/object/inner: missing, expected a whole number" },
  { "{'count': 1, 'later': 2}", "/later: found 2, but this key is not modelled yet (leave it out)" },
  { "{'count': 1, 'Flag': true}", "/Flag: unknown key, did you mean \"flag\"?" }, /* case matters */
  { "{'count': 1, 'zzzzz': true}",
    "/zzzzz: unknown key, expected one of flag, count, large, number, text, colour, rate, curve, object, later" },
};

START_TEST (bad_values_are_refused_with_their_pointer)
{
  g_auto (Thing) thing = { 0 };
  g_autoptr (GError) error = NULL;
  ck_assert (!read_thing (&thing_table, bad_things[_i].text, &thing, &error));
  ck_assert (g_error_matches (error, SC_INPUT_ERROR, SC_INPUT_ERROR_CONTENT));
  ck_assert_str_eq (error->message + strlen ("f.json: "), bad_things[_i].message);
}
END_TEST

START_TEST (a_table_may_ask_for_citations)
{
  static const struct
  {
    const char *text, *message;
  } cases[] = {
    { "{'count': 1, 'rate': '1 GB/s'}",
      "f.json: /rate: found \"1 GB/s\", expected an object with \"value\", \"grade\" and \"source\"" },
    { "{'count': 1, 'rate': {'value': '1 GB/s', 'source': 's'}}",
      "f.json: /rate/grade: missing, expected how well it is known: measured, datasheet, fitted or assumed" },
    { "{'count': 1, 'rate': {'value': '1 GB/s', 'grade': 'fitted'}}",
      "f.json: /rate/source: missing, expected where the number is from" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_auto (Thing) thing = { 0 };
      g_autoptr (GError) error = NULL;
      ck_assert (!read_thing (&strict_table, cases[i].text, &thing, &error));
      ck_assert_str_eq (error->message, cases[i].message);
    }
}
END_TEST

START_TEST (null_may_mean_not_stated)
{
  g_auto (Thing) thing = { 0 };
  g_autoptr (GError) error = NULL;
  ck_assert (read_thing (&strict_table, "{'count': 1, 'number': null, 'colour': null}", &thing, NULL));
  ck_assert_double_eq (thing.number, 0.5);
  g_auto (Thing) other = { 0 };
  ck_assert (!read_thing (&strict_table, "{'count': null}", &other, &error));
  ck_assert_str_eq (error->message, "f.json: /count: missing, expected a whole number");
}
END_TEST

/* Every row of every table of the program: documented, in range, and with a default that its own reader takes. */
START_TEST (every_row_is_sound)
{
  static const ScFieldTable *const tables[] = {
    &sc_device_table,   &sc_device_peak_table, &sc_topology_table, &sc_node_type_table,
    &sc_nvlink_table,   &sc_pcie_table,        &sc_nics_table,     &sc_node_run_table,
    &sc_fabric_table,   &sc_tier_table,        &sc_fault_table,    &sc_fault_place_table,
    &sc_workload_table, &sc_software_table,    &sc_model_table,    &sc_plan_table,
    &sc_uplink_table,   &sc_background_table,
  };
  for (guint t = 0; t < G_N_ELEMENTS (tables); t++)
    for (const ScField *field = tables[t]->fields; field->key != NULL; field++)
      {
        ck_assert_ptr_nonnull (field->help);
        ck_assert_msg (!g_str_has_suffix (field->help, "."), "%s", field->key);
        ck_assert_msg (field->fallback == NULL || field->derived == NULL, "%s", field->key);
        g_autofree char *range = sc_field_range_text (field);
        ck_assert_msg (*range == '\0' || field->min < field->max, "%s", field->key);
        if (field->fallback == NULL || field->kind == SC_FIELD_LATER)
          continue;

        /* An object of this row alone, empty, reads to the default. */
        const ScField alone[] = { *field, { .key = NULL } };
        const ScFieldTable table = { .title = "alone", .fields = alone, .plain_cited = TRUE };
        g_autofree char *base = g_malloc0 (65536);
        g_autoptr (GError) error = NULL;
        g_autoptr (ScJson) json = sc_json_parse ("f.json", "{}", 2, NULL);
        ck_assert_msg (sc_fields_read (&table, json, json->root, base, &error), "%s: %s", field->key,
                       error != NULL ? error->message : "");
        if (field->kind == SC_FIELD_STRING && field->offset != SC_FIELD_NOWHERE)
          g_free (*(char **) (gpointer) (base + field->offset));
      }
}
END_TEST

static Suite *
fields_suite (void)
{
  Suite *suite = suite_create ("fields");
  TCase *tc = tcase_create ("json");
  tcase_set_timeout (tc, 60);
  tcase_add_loop_test (tc, valid_json_is_read, 0, G_N_ELEMENTS (valid_json));
  tcase_add_loop_test (tc, bad_json_is_refused_with_its_place, 0, G_N_ELEMENTS (bad_json));
  tcase_add_test (tc, a_nul_byte_is_refused);
  tcase_add_test (tc, a_long_number_is_refused);
  tcase_add_test (tc, nesting_is_bounded);
  tcase_add_test (tc, the_number_of_values_is_bounded);
  tcase_add_loop_test (tc, slips_find_their_word, 0, G_N_ELEMENTS (slips));
  suite_add_tcase (suite, tc);
  tc = tcase_create ("tables");
  tcase_add_test (tc, defaults_are_applied);
  tcase_add_test (tc, every_kind_is_read);
  tcase_add_loop_test (tc, bad_values_are_refused_with_their_pointer, 0, G_N_ELEMENTS (bad_things));
  tcase_add_test (tc, a_table_may_ask_for_citations);
  tcase_add_test (tc, null_may_mean_not_stated);
  tcase_add_test (tc, every_row_is_sound);
  suite_add_tcase (suite, tc);
  return suite;
}

int
main (void)
{
  SRunner *runner = srunner_create (fields_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
