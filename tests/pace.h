/* SPDX-License-Identifier: GPL-3.0-or-later */
/* pace.h - tests that take long have a case of their own with a tag, which runs under slow instruments leave out
 * (CK_EXCLUDE_TAGS; see local.am): "slow" takes a second or more, "heavy" a tenth of one or more. */
#pragma once
#include <check.h>

static inline TCase *
tagged_case (Suite *suite, const char *tag)
{
  TCase *const ret = tcase_create (tag);
  tcase_set_tags (ret, tag);
  tcase_set_timeout (ret, 300);
  suite_add_tcase (suite, ret);
  return ret;
}

static inline TCase *
slow (Suite *suite)
{
  return tagged_case (suite, "slow");
}

static inline TCase *
heavy (Suite *suite)
{
  return tagged_case (suite, "heavy");
}
