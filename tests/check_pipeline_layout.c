/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_pipeline_layout.c - layout strings as Megatron reads them, and where they are wrong. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include "pipeline-layout.h"

/* Layers of each stage as digits, "+" and the number of its MTP modules where it has some. */
static char *
text_of (const ScPipelineLayout *l)
{
  g_autoptr (GString) out = g_string_new (NULL);
  for (guint i = 0; i < l->n; i++)
    {
      g_string_append_printf (out, "%s%u", i > 0 ? " " : "", l->layers[i]);
      if (l->mtp[i] > 0)
        g_string_append_printf (out, "+%u", l->mtp[i]);
    }
  return g_strdup (out->str);
}

static const struct
{
  const char *text, *stages;
} good[] = {
  { "Et|tL", "1 1" },
  { "Et*3|t*2|tL", "3 2 1" },
  { "E|t|t|L", "0 1 1 0" },
  { "E||t|L", "0 0 1 0" },
  { "Ett|(tt|)*6L", "2 2 2 2 2 2 2 0" },
  { "Et|(t|)*30tL", "1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1" },
  { "E,t*4|t*4|t*4|t*4|t*4|t*4|t*4|t*4,L", "4 4 4 4 4 4 4 4" },
  { "Et*16|t*16|t*16|t*12,m,L", "16 16 16 12+1" },
  { "Et|((t|)*2tt|)*2 L", "1 1 1 2 1 1 2 0" },
  { " E t * 2 | ( t | ) * 2 m * 2 L ", "2 1 1 0+2" },
  { "Et*1L", "1" },
};

START_TEST (repeated_parts_are_written_out)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ScPipelineLayout) l = sc_pipeline_layout_parse (good[_i].text, &error);
  ck_assert_msg (l != NULL, "%s: %s", good[_i].text, error != NULL ? error->message : "");
  g_autofree char *stages = text_of (l);
  ck_assert_str_eq (stages, good[_i].stages);
}
END_TEST

/* DeepSeek-V3 on 16 x 2 stages, the example of Megatron's documentation. */
START_TEST (the_example_of_the_documentation)
{
  g_autoptr (ScPipelineLayout) l = sc_pipeline_layout_parse ("Et*3|(tt|)*29,m|L", NULL);
  ck_assert_uint_eq (l->n, 32);
  guint layers = 0, mtp = 0;
  for (guint i = 0; i < l->n; i++)
    {
      layers += l->layers[i];
      mtp += l->mtp[i];
    }
  ck_assert_uint_eq (layers, 61);
  ck_assert_uint_eq (mtp, 1);
  ck_assert_uint_eq (l->layers[0], 3);
  ck_assert_uint_eq (l->layers[16], 2); /* the second chunk of rank 0 */
  ck_assert_uint_eq (l->mtp[30], 1);
  ck_assert_uint_eq (l->layers[31], 0);
}
END_TEST

static const struct
{
  const char *text, *message;
} bad[] = {
  { "", "column 1: found nothing, expected E, layers and L" },
  { "   ", "column 4: found nothing, expected E, layers and L" },
  { "Et|t", "column 5: found no L, expected the loss at the end of the model" },
  { "tE|L", "column 1: found t first, expected E: the model begins with the embedding" },
  { "Et|Lt", "column 5: found t behind L, expected E, then t, then m, then L" },
  { "Emt|L", "column 3: found t behind m, expected E, then t, then m, then L" },
  { "EtE|L", "column 3: found E behind t, expected E, then t, then m, then L" },
  { "EEt|L", "column 2: found a second E, expected one" },
  { "Et|LL", "column 5: found a second L, expected one" },
  { "Et|L*2", "column 4: found a second L, expected one" },
  { "Ex|L", "column 2: found \"x\", expected E (embedding), t (layer), m (MTP), L (loss), | or a bracket" },
  { "Et|T|L", "column 4: found \"T\", expected E (embedding), t (layer), m (MTP), L (loss), | or a bracket" },
  { "Et*|L", "column 4: found \"|\", expected a count behind *" },
  { "Et*", "column 4: found the end, expected a count behind *" },
  { "Et*0|L", "column 4: found a count of 0, expected 1 to 200000" },
  { "Et*99999999999999999999|L", "column 4: found a count of more than that, expected 1 to 200000" },
  { "E(t*1000|)*1000L", "column 2: more than 200000 symbols, written out" },
  { "Et(t|L", "column 3: this bracket is not closed" },
  { "Et)|L", "column 3: this bracket was not opened" },
  { "Et|(t|)L", "column 8: found \"L\" behind a bracket, expected * and a count" },
  { "(((((((((Et*1)*1", "column 9: found more than 8 brackets inside one another" },
  { "|Et|L", "column 1: found a stage without the embedding, expected E there" },
  { "Et|L|", "column 5: found a stage without the loss, expected L there" },
  { "Et|\xc3\xa4|L", "column 4: found \"\xc3\xa4\", expected E (embedding), t (layer), m (MTP), L (loss), | or a bracket" },
};

START_TEST (what_is_wrong_is_said_with_its_column)
{
  g_autoptr (GError) error = NULL;
  ck_assert_ptr_null (sc_pipeline_layout_parse (bad[_i].text, &error));
  ck_assert_str_eq (error->message, bad[_i].message);
}
END_TEST

/* Anything: parsed or refused, and what is parsed keeps the rules. */
START_TEST (noise_is_read_without_harm)
{
  static const char letters[] = "EtmL|()*, 019";
  guint64 x = 88172645463325252u;
  for (guint i = 0; i < 20000; i++)
    {
      char text[24];
      guint n = 0;
      for (; n < 3 + i % 20; n++)
        {
          x ^= x << 13;
          x ^= x >> 7;
          x ^= x << 17;
          text[n] = letters[x % (sizeof letters - 1)];
        }
      text[n] = '\0';
      g_autoptr (GError) error = NULL;
      g_autoptr (ScPipelineLayout) l = sc_pipeline_layout_parse (text, &error);
      ck_assert ((l == NULL) == (error != NULL));
      if (l != NULL)
        ck_assert_uint_ge (l->n, 1);
    }
}
END_TEST

static Suite *
layout_suite (void)
{
  Suite *const s = suite_create ("pipeline layout");
  TCase *const t = tcase_create ("all");
  tcase_add_loop_test (t, repeated_parts_are_written_out, 0, (int) G_N_ELEMENTS (good));
  tcase_add_loop_test (t, what_is_wrong_is_said_with_its_column, 0, (int) G_N_ELEMENTS (bad));
  tcase_add_test (t, the_example_of_the_documentation);
  tcase_add_test (t, noise_is_read_without_harm);
  suite_add_tcase (s, t);
  return s;
}

int
main (void)
{
  SRunner *const runner = srunner_create (layout_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
