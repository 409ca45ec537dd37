/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_nccl_log.c - what nccl-tests printed is read as it was meant, whatever stands around it, or refused by its line. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include "json-in.h"
#include "library.h"
#include "nccl-log.h"

/* ---- Files ---- */

/* ScNcclLog without its arrays. */
typedef struct
{
  guint line;
  const char *program, *collective;
  guint ranks, groups, nodes;
  const char *gpu, *nccl_version, *algo, *proto;
  double wrong, avg_busbw_bytes_per_s;
  gboolean complete;
} Facts;

static const struct
{
  const char *file;
  guint n_logs, index; /* runs in the file; the one that is meant */
  Facts log;
  guint n_rows, n_in_place;
  ScNcclRow last;
} files[] = {
  { "old-mpirun.txt",
    1,
    0,
    { .line = 1,
      .program = NULL,
      .collective = "all-reduce",
      .ranks = 4,
      .groups = 1,
      .nodes = 2,
      .gpu = "A100-SXM4-80GB",
      .avg_busbw_bytes_per_s = 31.9e9,
      .complete = TRUE },
    3,
    3,
    { 67108864, 1204.60e-6, 55.71e9, 83.57e9 } },
  /* Messages of NCCL inside the first two rows, one size twice. */
  { "new-srun.txt",
    1,
    0,
    { .line = 5,
      .program = "all_reduce_perf",
      .collective = "all-reduce",
      .ranks = 8,
      .groups = 1,
      .nodes = 2,
      .gpu = "NVIDIA H100 80GB HBM3",
      .nccl_version = "2.28.7+cuda13.0",
      .algo = "RING",
      .proto = "Simple",
      .avg_busbw_bytes_per_s = 237.36e9,
      .complete = TRUE },
    4,
    4,
    { 8589934592, 31410e-6, 273.48e9, 478.59e9 } },
  /* The second of three runs failed; the first had NCCL_ALGO for itself, all have NCCL_PROTO. */
  { "three-runs.txt",
    2,
    0,
    { .line = 4,
      .program = "all_gather_perf_mpi",
      .collective = "all-gather",
      .ranks = 4,
      .groups = 1,
      .nodes = 2,
      .gpu = "NVIDIA H200",
      .algo = "Tree",
      .proto = "LL128",
      .avg_busbw_bytes_per_s = 23.99e9,
      .complete = TRUE },
    2,
    2,
    { 4194304, 93.80e-6, 44.72e9, 33.54e9 } },
  { "three-runs.txt",
    2,
    1,
    { .line = 33,
      .program = "alltoall_perf",
      .collective = "all-to-all",
      .ranks = 4,
      .groups = 1,
      .nodes = 2,
      .gpu = "NVIDIA H200",
      .proto = "LL128",
      .wrong = 4 },
    2,
    2,
    { 4194304, 110.30e-6, 38.03e9, 28.52e9 } },
  /* One process with four GPUs, of which JSON lists the first; the second size was run in place only. */
  { "all-reduce.json",
    1,
    0,
    { .line = 1,
      .program = "all_reduce_perf",
      .collective = "all-reduce",
      .ranks = 4,
      .groups = 1,
      .nodes = 1,
      .gpu = "NVIDIA H100 PCIe",
      .nccl_version = "2.27.5",
      .algo = "NVLS",
      .proto = "Simple",
      .avg_busbw_bytes_per_s = 16.2e9,
      .complete = TRUE },
    1,
    2,
    { 1024, 11.25e-6, 91.022e6, 136.533e6 } },
};

START_TEST (a_file_is_read_with_all_it_says)
{
  const char *folder = g_getenv ("abs_srcdir");
  if (folder == NULL)
    folder = ".";
  g_autofree char *path = g_build_filename (folder, "tests", "data", "nccl-tests", files[_i].file, NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) logs = sc_nccl_log_read (path, &error);
  ck_assert_msg (logs != NULL, "%s", error != NULL ? error->message : "");
  ck_assert_uint_eq (logs->len, files[_i].n_logs);
  const ScNcclLog *log = g_ptr_array_index (logs, files[_i].index);
  const Facts *expected = &files[_i].log;
  ck_assert_uint_eq (log->line, expected->line);
  ck_assert_pstr_eq (log->program, expected->program);
  ck_assert_pstr_eq (log->collective, expected->collective);
  ck_assert_uint_eq (log->ranks, expected->ranks);
  ck_assert_uint_eq (log->groups, expected->groups);
  ck_assert_uint_eq (log->nodes, expected->nodes);
  ck_assert_pstr_eq (log->gpu, expected->gpu);
  ck_assert_pstr_eq (log->nccl_version, expected->nccl_version);
  ck_assert_pstr_eq (log->algo, expected->algo);
  ck_assert_pstr_eq (log->proto, expected->proto);
  ck_assert_double_eq (log->wrong, expected->wrong);
  ck_assert_double_eq_tol (log->avg_busbw_bytes_per_s, expected->avg_busbw_bytes_per_s, 1);
  ck_assert_int_eq (log->complete, expected->complete);
  ck_assert_uint_eq (log->rows->len, files[_i].n_rows);
  ck_assert_uint_eq (log->in_place->len, files[_i].n_in_place);
  const ScNcclRow *last = &g_array_index (log->rows, ScNcclRow, log->rows->len - 1);
  ck_assert_double_eq (last->bytes, files[_i].last.bytes);
  ck_assert_double_eq_tol (last->time_s, files[_i].last.time_s, 1e-15);
  ck_assert_double_eq_tol (last->algbw_bytes_per_s, files[_i].last.algbw_bytes_per_s, 1);
  ck_assert_double_eq_tol (last->busbw_bytes_per_s, files[_i].last.busbw_bytes_per_s, 1);
}
END_TEST

/* ---- Texts ---- */

static GPtrArray *
parse (const char *text, GError **error)
{
  return sc_nccl_log_parse ("x.log", text, strlen (text), error);
}

/* The only run in @text. */
static ScNcclLog *
parse_one (const char *text)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) logs = parse (text, &error);
  ck_assert_msg (logs != NULL, "%s", error != NULL ? error->message : "");
  ck_assert_uint_eq (logs->len, 1);
  return g_ptr_array_steal_index (logs, 0);
}

#define HEAD                                                                                                           \
  "# nThread 1 nGpus 4 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20 validation: 1\n# Using "        \
  "devices\n"
#define RANK(rank, host) "#   Rank  " rank " Pid  63453 on " host " device  0 [0x00] A100-SXM4-40GB\n"
#define FOUR RANK ("0", "a") RANK ("1", "a") RANK ("2", "a") RANK ("3", "a")
#define OLD "# size count type redop time algbw busbw error time algbw busbw error\n"
#define NEW "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
#define ROW " 8 2 float sum 31.44 0.50 0.75 1e-07 32.30 0.25 0.38 1e-07\n"

/* Rows that fit one collective among four ranks name it; else nothing is said. */
static const struct
{
  const char *columns, *row, *collective;
} derived[] = {
  { "redop ", "float sum 10.0 100.00 150.00 0 10.0 100.00 150.00 0", "all-reduce" },
  { "redop root ", "float sum -1 10.0 100.00 150.00 0 10.0 100.00 150.00 0", "all-reduce" },
  { "redop ", "float sum 10.0 100.00 75.00 0 10.0 100.00 75.00 0", "reduce-scatter" },
  { "redop root ", "float sum 0 10.0 100.00 100.00 0 10.0 100.00 100.00 0", "reduce" },
  { "root ", "float 0 10.0 100.00 100.00 0 10.0 100.00 100.00 0", "broadcast" },
  { "redop root ", "float none 0 10.0 100.00 100.00 0 10.0 100.00 100.00 0", "broadcast" },
  { "redop root ", "float sum -1 10.0 100.00 100.00 0 10.0 100.00 100.00 0", "send-recv" },
  { "", "float 10.0 100.00 75.00 0 10.0 100.00 75.00 0", NULL },       /* all-gather or all-to-all */
  { "redop ", "float 10.0 100.00 75.00 0 10.0 100.00 75.00 0", NULL }, /* the same, the reduction blank */
  { "redop root ", "float none -1 10.0 100.00 75.00 0 10.0 100.00 75.00 0", NULL },
  { "redop root ", "float none 0 10.0 100.00 75.00 0 10.0 100.00 75.00 0", NULL }, /* gather or scatter */
  { "redop ", "float sum 10.0 100.00 120.00 0 10.0 100.00 120.00 0", NULL },       /* no known factor */
  { "redop ", "float sum 10.0 0.00 0.00 0 10.0 0.00 0.00 0", NULL },               /* too small to tell */
};

START_TEST (the_rows_say_which_collective_it_was_where_only_one_fits)
{
  g_autofree char *text =
      g_strconcat (HEAD FOUR "# size count type ", derived[_i].columns,
                   "time algbw busbw error time algbw busbw error\n 1000000 250000 ", derived[_i].row, "\n", NULL);
  g_autoptr (ScNcclLog) log = parse_one (text);
  ck_assert_pstr_eq (log->collective, derived[_i].collective);
  ck_assert_ptr_null (log->program);
  ck_assert_double_eq (log->wrong, 0);
}
END_TEST

/* The same table under other labels: four ranks on one host, two rows. */
static const char *const labels[] = {
  "",
  "0: ",
  " 0: ",
  "node-01: ",
  "[1,0]<stdout>:",
  "[prterun-a-77@1,0]<stdout>: ",
  "[pod/nccl-0/main] ",
  "2025-01-02T03:04:05.678901Z ",
  "launcher-1  | ",
  "\033[1;32m0: \033[0m",
  "\t",
};

START_TEST (labels_before_the_lines_do_not_matter)
{
  g_auto (GStrv) lines = g_strsplit (HEAD FOUR NEW " 0 0 float sum -1 31.44 0.00 0.00 N/A 32.30 0.00 0.00 N/A\n"
                                                   " 8 2 float sum -1 31.44 2.00 3.00 N/A 32.30 2.00 3.00 N/A\n",
                                     "\n", -1);
  for (guint crlf = 0; crlf < 2; crlf++)
    {
      g_autoptr (GString) text = g_string_new (NULL);
      for (guint i = 0; lines[i] != NULL && lines[i][0] != '\0'; i++)
        g_string_append_printf (text, "%s%s%s\n", labels[_i], lines[i], crlf ? "\r" : "");
      g_autoptr (ScNcclLog) log = parse_one (text->str);
      ck_assert_uint_eq (log->ranks, 4);
      ck_assert_uint_eq (log->nodes, 1);
      ck_assert_uint_eq (log->rows->len, 2);
      ck_assert_str_eq (log->gpu, "A100-SXM4-40GB");
      ck_assert_str_eq (log->collective, "all-reduce");
      ck_assert_int_eq (log->complete, FALSE);
      ck_assert_double_eq (g_array_index (log->rows, ScNcclRow, 0).bytes, 0);
    }
}
END_TEST

/* Columns that options add; what stands between rows; rows in place only. */
static const struct
{
  const char *text;
  guint n_rows, n_in_place;
} tables[] = {
  { "# size count type redop root time algbw busbw #wrong #bitdiff i_min i_max i_p99 i_cv% time algbw busbw #wrong "
    "#bitdiff i_min i_max i_p99 i_cv% timestamp\n"
    " 8 2 float sum -1 31.4 0.5 0.7 0 0 30 33 32 1.5 31.4 0.5 0.7 0 0 30 33 32 1.5 2025-01-02 03:04:05\n",
    1, 1 },
  { "# size count type redop root time algbw busbw #wrong\n 8 2 float sum -1 31.4 0.5 0.7 0\n", 1, 0 },
  { NEW
    "12:00:01 epilogue: 3 4\nhost:1:2 [0] NCCL WARN 3 retries\n 8 2 float sum -1 31 0 0 0 31 0 0 0\n\n5 nodes left\n",
    1, 1 },
  { NEW " 8 2 float sum -1                                  31.40 0.10 0.20 0\n", 0, 1 },
  { NEW " 8 2 float sum -1 31 0 0 0 31 0 0 0\n 8 2 float sum -1 30 0 0 0 31 0 0 0\n 16 4 float sum", 2,
    2 }, /* killed */
  { NEW " 8 2 float sum -1 31 0 0 0 31 0 0 0\n# Out of bounds values : 0 OK\n 5 5 apples\n", 1, 1 },
  { NEW " 8 2 float sum -1 1.2e+08 1.5e+03 0 0 31 0 0 0\n", 1, 1 },
};

START_TEST (the_header_says_what_the_columns_are)
{
  g_autoptr (ScNcclLog) log = parse_one (tables[_i].text);
  ck_assert_uint_eq (log->rows->len, tables[_i].n_rows);
  ck_assert_uint_eq (log->in_place->len, tables[_i].n_in_place);
  ck_assert_uint_eq (log->ranks, 0); /* no device is listed */
  ck_assert_ptr_null (log->collective);
}
END_TEST

START_TEST (communicators_that_ran_together_are_counted_apart)
{
  g_autoptr (ScNcclLog) log = parse_one ("# nThread 1 nGpus 1\n"
                                         "#  Rank  0 Group  0 Pid 1 on a device 0 [0000:19:00] NVIDIA H100\n"
                                         "#  Rank  1 Group  1 Pid 2 on a device 1 [0000:1a:00] NVIDIA H100\n"
                                         "#  Rank  2 Group  0 Pid 3 on b device 0 [0000:19:00] NVIDIA H100\n"
                                         "#  Rank  3 Group  1 Pid 4 on b device 1 [0000:1a:00] NVIDIA H200\n" OLD ROW);
  ck_assert_uint_eq (log->ranks, 2);
  ck_assert_uint_eq (log->groups, 2);
  ck_assert_uint_eq (log->nodes, 2);
  ck_assert_ptr_null (log->gpu); /* two kinds */
}
END_TEST

/* A command line names the program, unless the rows say otherwise or only a compiler speaks. */
static const struct
{
  const char *line, *program;
} commands[] = {
  { "$ ./build/all_reduce_perf -b 8 -g 4", "all_reduce_perf" },
  { "srun \"/opt/nccl tests/all_reduce_perf_mpi\" -b 8", "all_reduce_perf_mpi" },
  { "$ ./build/all_gather_perf -b 8", NULL },
  { "Linking all_reduce.o > build/all_reduce_perf", NULL },
  { "$ ./my_perf -b 8", NULL },
};

START_TEST (a_command_line_names_the_program)
{
  g_autofree char *text = g_strconcat (commands[_i].line, "\n" HEAD FOUR OLD ROW, NULL);
  g_autoptr (ScNcclLog) log = parse_one (text);
  ck_assert_pstr_eq (log->program, commands[_i].program);
  ck_assert_pstr_eq (log->collective, "all-reduce"); /* the rows alone say so too */
}
END_TEST

/* ---- Refusals ---- */

#define JSON "{'config':{'nthreads':1,'ngpus':1,'devices':[{'rank':0,'hostname':'a'}]},'results':"

static const struct
{
  const char *text; /* ' in JSON for " */
  const char *message;
} bad[] = {
  { "", "x.log: found no table of nccl-tests, expected one whose header is" },
  { "hello\n", "x.log: found no table of nccl-tests" },
  { HEAD FOUR, "x.log: found no table of nccl-tests" },
  { HEAD FOUR OLD "# Out of bounds values : 0 OK\n", "x.log:7: found a table without rows, expected one row at least" },
  { OLD " 8 2 float sum nan 0.5 0.7 0 31 0.5 0.7 0\n", "x.log:2: found \"nan\", expected a number" },
  { OLD " 8 2 float sum 31 inf 0.7 0 31 0.5 0.7 0\n", "x.log:2: found \"inf\", expected a number" },
  { OLD " 8 2 float sum 31 0x1 0.7 0 31 0.5 0.7 0\n", "x.log:2: found \"0x1\", expected a number" },
  { OLD " 8 2 float sum 1e999 0 0.7 0 31 0.5 0.7 0\n", "x.log:2: found \"1e999\", expected a number" },
  { OLD " 8 2 float sum N/A 0 0.7 0 31 0.5 0.7 0\n", "x.log:2: found \"N/A\", expected a time in us" },
  { OLD " 8 2 float sum -31 0 0.7 0 31 0.5 0.7 0\n", "x.log:2: found -31, expected a time above 0 us" },
  { OLD " 8 2 float sum 0.00 0 0.7 0 31 0.5 0.7 0\n", "x.log:2: found 0, expected a time above 0 us" },
  { OLD " 8 2 float sum 31 0 -0.7 0 31 0.5 0.7 0\n", "x.log:2: found -0.7, expected a bandwidth of 0 GB/s or more" },
  { NEW " 8 2 float sum -1 31 0 0.7 -2 31 0.5 0.7 0\n", "x.log:2: found \"-2\", expected a count of wrong values" },
  { OLD " -8 2 float sum 31 0 0.7 0 31 0.5 0.7 0\n", "x.log:2: found \"-8\", expected a size of 0 bytes or more" },
  { OLD " 8 2 31 0 0.7 0 31 0.5 0.7 0\n", "x.log:2: found \"31\", expected a data type such as \"float\"" },
  { OLD " 8 2 float sum 31 0 0.7 0 31 0.5 0.7\n" ROW, "x.log:2: found a row with 7 measured columns, expected 8 as the "
                                                      "header in line 1 has" },
  { OLD " 8 2 float sum 31 0 0.7 0 31 0.5 0.7 0 9\n", "x.log:2: found a row with 9 measured columns, expected 8" },
  { OLD ROW OLD, "x.log:3: found a second table inside the one of line 1" },
  { HEAD FOUR RANK ("0", "b") OLD ROW, "x.log:7: found rank 0 a second time, expected the output of one process" },
  { HEAD RANK ("99999999", "b") OLD ROW, "x.log:3: found rank or group 99999999, expected one below 10000000" },
  { OLD ROW "# Avg bus bandwidth : nan\n", "x.log:3: found \"nan\", expected an average bandwidth in GB/s" },
  { "# size count type redop cputime algbw busbw\n", "x.log:1: found column \"cputime\", expected \"time\" (a run" },
  { "# size count type redop time busbw\n", "x.log:1: found column \"busbw\", expected \"algbw\"" },
  { "# size count type time algbw busbw #wrong time busbw\n",
    "x.log:1: found column \"busbw\", expected \"algbw\" as" },
  { "{'a':", "x.log:1:6: found the end of the text" },
  { "{}", "x.log: /config: found nothing, expected an object (JSON that nccl-tests -J has written)" },
  { JSON "[]}", "x.log: /results: found no rows, expected one at least" },
  { JSON "null}", "x.log: /results: found null, expected an array" },
  { JSON "[1]}", "x.log: /results: found no rows" },
  { JSON "[{'size':8,'out_of_place':{'time':'nan'}}]}",
    "x.log: /results/0/out_of_place/time: found \"nan\", expected a "
    "time in us" },
  { JSON "[{'size':8,'out_of_place':{'time':-1,'alg_bw':0,'bus_bw':0}}]}",
    "x.log: /results/0/out_of_place: found -1, expected a time above 0 us" },
  { JSON "[{'size':8,'in_place':{'time':1,'alg_bw':0,'bus_bw':0,'nwrong':-1}}]}",
    "x.log: /results/0/in_place/nwrong: found -1, expected a count or null" },
  { JSON "[{'out_of_place':{'time':1}}]}", "x.log: /results/0/size: found nothing, expected a size" },
  { JSON "[{'size':8,'in_place':{'cpu_time':1}}]}", "x.log: /results/0/in_place/cpu_time: found the CPU's time" },
  { "{'config':{'nthreads':1,'ngpus':1e9}}",
    "x.log: /config/ngpus: found 1000000000, expected a whole number below 1000" },
  { "{'config':{'nthreads':1,'ngpus':1,'devices':[{'rank':0.5}]}}", "x.log: /config/devices/0/rank: found 0.5" },
  { "{'config':{'nthreads':1,'ngpus':1,'devices':[{'rank':0,'hostname':'a'},{'rank':0,'hostname':'a'}]}}",
    "x.log: /config/devices/1/rank: found 0 a second time, expected each rank once" },
  { "{'config':1,'config':2}", "x.log: /config: " },
};

START_TEST (what_is_wrong_is_said_with_its_line)
{
  g_autofree char *text = g_strdup (bad[_i].text);
  if (*text == '{')
    g_strdelimit (text, "'", '"');
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) logs = parse (text, &error);
  ck_assert_ptr_null (logs);
  ck_assert_msg (g_str_has_prefix (error->message, bad[_i].message), "%s", error->message);
  ck_assert_int_eq (error->domain == SC_INPUT_ERROR, TRUE);
  ck_assert_ptr_null (strchr (error->message, '\n'));
}
END_TEST

START_TEST (bytes_that_are_no_text_are_refused)
{
  static const char binary[] = "\177ELF\2\1\1\0\0\0\n\0";
  g_autoptr (GError) error = NULL;
  ck_assert_ptr_null (sc_nccl_log_parse ("x.log", binary, sizeof binary - 1, &error));
  ck_assert_str_eq (error->message, "x.log:1: found a NUL byte, expected text or JSON (UTF-16 is not read)");
}
END_TEST

START_TEST (a_text_cut_anywhere_is_read_or_refused)
{
  static const char *const names[] = { "new-srun.txt", "all-reduce.json" };
  const char *folder = g_getenv ("abs_srcdir");
  g_autofree char *path =
      g_build_filename (folder == NULL ? "." : folder, "tests", "data", "nccl-tests", names[_i], NULL);
  g_autofree char *text = NULL;
  gsize length;
  ck_assert (g_file_get_contents (path, &text, &length, NULL));
  guint n_read = 0;
  for (gsize n = 0; n < length; n += 7)
    {
      g_autofree char *cut = g_strndup (text, n);
      g_autoptr (GError) error = NULL;
      g_autoptr (GPtrArray) logs = sc_nccl_log_parse ("x.log", cut, n, &error);
      ck_assert_int_eq (logs == NULL, error != NULL);
      n_read += logs != NULL;
      /* And with a byte that is no UTF-8 in its place. */
      g_autofree char *bent = g_strndup (text, length);
      bent[n] = '\377';
      g_autoptr (GPtrArray) others = sc_nccl_log_parse ("x.log", bent, length, NULL);
    }
  ck_assert_int_eq (n_read > 0, _i == 0);
}
END_TEST

START_TEST (long_lines_of_others_are_passed_over)
{
  g_autoptr (GString) text = g_string_new (NULL);
  for (guint i = 0; i < 3000000; i++)
    g_string_append_c (text, "a:1 [0] "[i % 8]);
  g_string_append (text, "\n" OLD ROW);
  g_autoptr (ScNcclLog) log = parse_one (text->str);
  ck_assert_uint_eq (log->line, 2);
}
END_TEST

START_TEST (a_file_that_cannot_be_read_is_named)
{
  g_autoptr (GError) absent = NULL, folder = NULL;
  ck_assert_ptr_null (sc_nccl_log_read ("/nowhere/x.log", &absent));
  ck_assert (g_error_matches (absent, SC_LIBRARY_ERROR, SC_LIBRARY_ERROR_NOT_FOUND));
  ck_assert_ptr_null (sc_nccl_log_read ("/", &folder));
  ck_assert_str_eq (folder->message, "/: is a directory, expected a log of nccl-tests");
}
END_TEST

static Suite *
nccl_log_suite (void)
{
  Suite *suite = suite_create ("nccl-log");
  TCase *tc = tcase_create ("nccl-log");
  tcase_add_loop_test (tc, a_file_is_read_with_all_it_says, 0, G_N_ELEMENTS (files));
  tcase_add_loop_test (tc, the_rows_say_which_collective_it_was_where_only_one_fits, 0, G_N_ELEMENTS (derived));
  tcase_add_loop_test (tc, labels_before_the_lines_do_not_matter, 0, G_N_ELEMENTS (labels));
  tcase_add_loop_test (tc, the_header_says_what_the_columns_are, 0, G_N_ELEMENTS (tables));
  tcase_add_test (tc, communicators_that_ran_together_are_counted_apart);
  tcase_add_loop_test (tc, a_command_line_names_the_program, 0, G_N_ELEMENTS (commands));
  tcase_add_loop_test (tc, what_is_wrong_is_said_with_its_line, 0, G_N_ELEMENTS (bad));
  tcase_add_test (tc, bytes_that_are_no_text_are_refused);
  tcase_add_loop_test (tc, a_text_cut_anywhere_is_read_or_refused, 0, 2);
  tcase_add_test (tc, long_lines_of_others_are_passed_over);
  tcase_add_test (tc, a_file_that_cannot_be_read_is_named);
  suite_add_tcase (suite, tc);
  return suite;
}

int
main (void)
{
  SRunner *runner = srunner_create (nccl_log_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
