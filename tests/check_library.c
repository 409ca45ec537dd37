/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_library.c - data is found by path, by name, and inside the program; what cannot be read is refused in words. */
#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <glib/gstdio.h>
#include "library.h"

static char *scratch; /* a folder of this test's own, the current one */

static void
enter_scratch (void)
{
  scratch = g_dir_make_tmp ("check-library-XXXXXX", NULL);
  ck_assert_ptr_nonnull (scratch);
  ck_assert_int_eq (chdir (scratch), 0);
  g_setenv ("STEPCAST_DATA_PATH", "", TRUE);
}

static void
remove_tree (const char *path)
{
  GDir *dir = g_dir_open (path, 0, NULL);
  if (dir != NULL)
    {
      for (const char *name = g_dir_read_name (dir); name != NULL; name = g_dir_read_name (dir))
        {
          g_autofree char *below = g_build_filename (path, name, NULL);
          remove_tree (below);
        }
      g_dir_close (dir);
    }
  g_remove (path);
}

static void
leave_scratch (void)
{
  ck_assert_int_eq (chdir ("/"), 0);
  remove_tree (scratch);
  g_clear_pointer (&scratch, g_free);
}

static void
write_file (const char *path, const char *text)
{
  g_autofree char *folder = g_path_get_dirname (path);
  ck_assert_int_eq (g_mkdir_with_parents (folder, 0777), 0);
  ck_assert (g_file_set_contents (path, text, -1, NULL));
}

static void
assert_loads (const char *kind, const char *argument, const char *text, const char *display_name)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *name = NULL;
  gsize length = 0;
  g_autofree char *got = sc_library_load (kind, argument, &name, &length, &error);
  ck_assert_msg (got != NULL, "%s", error == NULL ? "no text, no error" : error->message);
  ck_assert_ptr_null (error);
  ck_assert_str_eq (got, text);
  ck_assert_uint_eq (length, strlen (text));
  if (display_name != NULL)
    ck_assert_str_eq (name, display_name);
}

static void
assert_refused (const char *argument, ScLibraryError code, const char *words)
{
  g_autoptr (GError) error = NULL;
  char *name = NULL;
  gsize length = 7;
  char *got = sc_library_load (SC_KIND_WORKLOAD, argument, &name, &length, &error);
  ck_assert_ptr_null (got);
  ck_assert_ptr_null (name);
  ck_assert_uint_eq (length, 7);
  ck_assert_msg (g_error_matches (error, SC_LIBRARY_ERROR, code), "code %d: %s", error->code, error->message);
  ck_assert_msg (strstr (error->message, words) != NULL, "'%s' not in: %s", words, error->message);
  ck_assert_ptr_null (strchr (error->message, '\n'));
}

static void
feed_stdin (const char *path, int *ret_saved)
{
  const int fd = g_open (path, O_RDONLY, 0);
  ck_assert_int_ge (fd, 0);
  *ret_saved = dup (STDIN_FILENO);
  ck_assert_int_eq (dup2 (fd, STDIN_FILENO), STDIN_FILENO);
  close (fd);
}

static void
restore_stdin (int saved)
{
  if (saved < 0)
    return;
  dup2 (saved, STDIN_FILENO);
  close (saved);
}

/* Kind, the folder people may write before the name, and what they may write behind it. */
static const char *const kinds[][3] = {
  { SC_KIND_TOPOLOGY, "topologies", ".json" },
  { SC_KIND_DEVICE, "topologies/devices", ".json" },
  { SC_KIND_DEVICE, "devices", ".json" },
  { SC_KIND_WORKLOAD, "workloads", ".json" },
  { SC_KIND_MEASUREMENTS, "validation", ".jsonl" },
  { SC_KIND_RULES, "validation", ".json" },
};

START_TEST (every_row_is_found_in_each_spelling)
{
  const char *kind = kinds[_i][0];
  guint n = 0;
  for (const ScLibraryRow *row = sc_library_next (NULL, kind); row != NULL; row = sc_library_next (row, kind), n++)
    {
      ck_assert_str_eq (row->kind, kind);
      ck_assert_uint_eq (strlen (row->text), row->length);
      for (guint spelling = 0; spelling < 4; spelling++)
        {
          g_autofree char *name = g_strconcat (spelling & 1 ? kinds[_i][1] : "", spelling & 1 ? "/" : "", row->name,
                                               spelling & 2 ? kinds[_i][2] : "", NULL);
          gsize length = 0;
          ck_assert_ptr_eq (sc_library_find (kind, name, &length), row->text);
          ck_assert_uint_eq (length, row->length);
          assert_loads (kind, name, row->text, NULL);
        }
    }
  ck_assert_uint_gt (n, 0);
}
END_TEST

START_TEST (rows_are_sorted_and_each_is_of_a_known_kind)
{
  guint n = 0;
  const ScLibraryRow *before = NULL;
  for (const ScLibraryRow *row = sc_library_next (NULL, NULL); row != NULL; row = sc_library_next (row, NULL), n++)
    {
      if (before != NULL && strcmp (before->kind, row->kind) == 0)
        ck_assert_int_lt (strcmp (before->name, row->name), 0);
      before = row;
    }
  guint n_by_kind = 0;
  static const char *const known[] = { SC_KIND_TOPOLOGY, SC_KIND_DEVICE, SC_KIND_CALIBRATION, SC_KIND_WORKLOAD, SC_KIND_MEASUREMENTS, SC_KIND_RULES };
  for (guint i = 0; i < G_N_ELEMENTS (known); i++)
    for (const ScLibraryRow *row = sc_library_next (NULL, known[i]); row != NULL;
         row = sc_library_next (row, known[i]))
      n_by_kind++;
  ck_assert_uint_eq (n, n_by_kind);
}
END_TEST

START_TEST (the_copy_inside_is_the_shipped_file)
{
  const char *srcdir = g_getenv ("abs_srcdir");
  if (srcdir == NULL)
    return;
  for (const ScLibraryRow *row = sc_library_next (NULL, NULL); row != NULL; row = sc_library_next (row, NULL))
    {
      g_autofree char *display_name = NULL;
      g_autofree char *inside = sc_library_load (row->kind, row->name, &display_name, NULL, NULL);
      g_autofree char *path = g_build_filename (srcdir, display_name, NULL);
      g_autofree char *shipped = NULL;
      gsize length = 0;
      ck_assert_msg (g_file_get_contents (path, &shipped, &length, NULL), "%s", path);
      ck_assert_uint_eq (length, row->length);
      ck_assert_int_eq (memcmp (shipped, inside, length), 0);
    }
}
END_TEST

START_TEST (a_file_wins_over_the_data_path_and_that_over_the_copy_inside)
{
  const ScLibraryRow *row = sc_library_next (NULL, SC_KIND_WORKLOAD);
  ck_assert_ptr_nonnull (row);
  g_autofree char *inside = g_strconcat ("workloads/", row->name, ".json", NULL);
  assert_loads (SC_KIND_WORKLOAD, row->name, row->text, inside);

  g_autofree char *installed = g_strconcat (scratch, "/second/workloads/", row->name, ".json", NULL);
  g_autofree char *path = g_strconcat (scratch, "/first:", scratch, "/second", NULL);
  write_file (installed, "installed");
  g_setenv ("STEPCAST_DATA_PATH", path, TRUE);
  assert_loads (SC_KIND_WORKLOAD, row->name, "installed", installed);

  write_file (row->name, "file");
  assert_loads (SC_KIND_WORKLOAD, row->name, "file", row->name);
}
END_TEST

START_TEST (a_name_with_a_folder_of_its_own_is_only_a_path)
{
  write_file ("data/secret.json", "{}");
  g_setenv ("STEPCAST_DATA_PATH", scratch, TRUE);
  assert_refused ("../data/secret", SC_LIBRARY_ERROR_NOT_FOUND, "no such file");
  assert_refused ("workloads/../data/secret", SC_LIBRARY_ERROR_NOT_FOUND, "no such file");
}
END_TEST

START_TEST (a_folder_does_not_hide_a_shipped_name)
{
  const ScLibraryRow *row = sc_library_next (NULL, SC_KIND_WORKLOAD);
  ck_assert_ptr_nonnull (row);
  ck_assert_int_eq (g_mkdir (row->name, 0777), 0);
  assert_loads (SC_KIND_WORKLOAD, row->name, row->text, NULL);
}
END_TEST

START_TEST (a_name_nearly_right_is_answered_with_the_right_one)
{
  const ScLibraryRow *row = sc_library_next (NULL, SC_KIND_WORKLOAD);
  ck_assert_ptr_nonnull (row);
  g_autofree char *wrong = g_strconcat ("workloads/", row->name, "x.json", NULL);
  assert_refused (wrong, SC_LIBRARY_ERROR_NOT_FOUND, row->name);
  assert_refused ("zzzzzzzzzzzzzzzzzz", SC_LIBRARY_ERROR_NOT_FOUND, "stepcast list");
  assert_refused ("", SC_LIBRARY_ERROR_NOT_FOUND, "empty");
  const ScLibraryRow *other = sc_library_next (NULL, SC_KIND_TOPOLOGY);
  ck_assert_ptr_nonnull (other);
  assert_refused (other->name, SC_LIBRARY_ERROR_NOT_FOUND, "it is the name of a topology");
}
END_TEST

START_TEST (what_is_no_file_is_refused)
{
  ck_assert_int_eq (g_mkdir ("folder", 0777), 0);
  assert_refused ("folder", SC_LIBRARY_ERROR_NOT_A_FILE, "folder: is a directory");

  const int fd = socket (AF_UNIX, SOCK_STREAM, 0);
  struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "socket" };
  ck_assert_int_eq (bind (fd, (const struct sockaddr *) &address, sizeof address), 0);
  assert_refused ("socket", SC_LIBRARY_ERROR_NOT_A_FILE, "socket: ");
  close (fd);
}
END_TEST

START_TEST (what_is_too_large_is_refused_unread)
{
  const int fd = g_open ("large.json", O_CREAT | O_WRONLY, 0666);
  ck_assert_int_eq (ftruncate (fd, G_GINT64_CONSTANT (1) << 31), 0); /* 2 GiB of hole */
  close (fd);
  const gint64 start = g_get_monotonic_time ();
  assert_refused ("large.json", SC_LIBRARY_ERROR_TOO_LARGE, "large.json: has 2147483648 bytes");
  ck_assert_int_lt (g_get_monotonic_time () - start, G_USEC_PER_SEC / 2); /* reading it takes longer */
  assert_refused ("/dev/zero", SC_LIBRARY_ERROR_TOO_LARGE, "/dev/zero: has more than 16777216 bytes");
}
END_TEST

START_TEST (a_file_at_the_limit_is_read_and_one_byte_more_is_not)
{
  const int fd = g_open ("edge.json", O_CREAT | O_WRONLY, 0666);
  ck_assert_int_eq (ftruncate (fd, SC_LIBRARY_MAX_BYTES), 0);
  gsize length = 0;
  g_autofree char *text = sc_library_load (SC_KIND_WORKLOAD, "edge.json", NULL, &length, NULL);
  ck_assert_ptr_nonnull (text);
  ck_assert_uint_eq (length, SC_LIBRARY_MAX_BYTES);
  ck_assert_int_eq (text[length], '\0');
  ck_assert_int_eq (ftruncate (fd, SC_LIBRARY_MAX_BYTES + 1), 0);
  close (fd);
  assert_refused ("edge.json", SC_LIBRARY_ERROR_TOO_LARGE, "expected at most 16777216");
}
END_TEST

START_TEST (what_cannot_be_read_is_said_with_the_reason)
{
  ck_assert_int_eq (symlink ("loop", "loop"), 0);
  assert_refused ("loop", SC_LIBRARY_ERROR_IO, "loop: cannot open: ");
  if (geteuid () == 0) /* root may read everything */
    return;
  write_file ("locked.json", "{}");
  ck_assert_int_eq (g_chmod ("locked.json", 0), 0);
  assert_refused ("locked.json", SC_LIBRARY_ERROR_IO, "locked.json: cannot open: ");
}
END_TEST

START_TEST (a_dash_reads_standard_input_up_to_the_limit)
{
  int saved;
  write_file ("input.json", "{ \"a\": 1 }");
  feed_stdin ("input.json", &saved);
  assert_loads (SC_KIND_WORKLOAD, "-", "{ \"a\": 1 }", "(stdin)");
  restore_stdin (saved);
  feed_stdin ("/dev/zero", &saved);
  assert_refused ("-", SC_LIBRARY_ERROR_TOO_LARGE, "(stdin): has more than 16777216 bytes");
  restore_stdin (saved);
}
END_TEST

static gpointer
write_to_pipe (gpointer path)
{
  const int fd = g_open (path, O_WRONLY, 0);
  const gssize n = write (fd, "piped", 5);
  close (fd);
  return GINT_TO_POINTER ((int) n);
}

START_TEST (a_pipe_is_read_to_its_end)
{
  ck_assert_int_eq (mkfifo ("pipe", 0666), 0);
  char path[] = "pipe";
  GThread *writer = g_thread_new ("writer", write_to_pipe, path);
  assert_loads (SC_KIND_WORKLOAD, "pipe", "piped", "pipe");
  ck_assert_int_eq (GPOINTER_TO_INT (g_thread_join (writer)), 5);
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("library");
  TCase *tcase = tcase_create ("library");
  tcase_add_checked_fixture (tcase, enter_scratch, leave_scratch);
  tcase_add_loop_test (tcase, every_row_is_found_in_each_spelling, 0, G_N_ELEMENTS (kinds));
  tcase_add_test (tcase, rows_are_sorted_and_each_is_of_a_known_kind);
  tcase_add_test (tcase, the_copy_inside_is_the_shipped_file);
  tcase_add_test (tcase, a_file_wins_over_the_data_path_and_that_over_the_copy_inside);
  tcase_add_test (tcase, a_name_with_a_folder_of_its_own_is_only_a_path);
  tcase_add_test (tcase, a_folder_does_not_hide_a_shipped_name);
  tcase_add_test (tcase, a_name_nearly_right_is_answered_with_the_right_one);
  tcase_add_test (tcase, what_is_no_file_is_refused);
  tcase_add_test (tcase, what_is_too_large_is_refused_unread);
  tcase_add_test (tcase, a_file_at_the_limit_is_read_and_one_byte_more_is_not);
  tcase_add_test (tcase, what_cannot_be_read_is_said_with_the_reason);
  tcase_add_test (tcase, a_dash_reads_standard_input_up_to_the_limit);
  tcase_add_test (tcase, a_pipe_is_read_to_its_end);
  suite_add_tcase (suite, tcase);
  SRunner *runner = srunner_create (suite);
  srunner_run_all (runner, CK_NORMAL);
  const int n_failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
