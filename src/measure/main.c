/* SPDX-License-Identifier: MIT */
/* main.c - stepcast-measure: the plan, item by item, into the file.
 *
 * Whatever goes wrong with one item, the others run: an item that fails is noted and left; after an error that ruins the
 * CUDA context, a crash inside a library, or an item that hangs, the program starts itself again and avoids that item. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "measure/gpu.h"
#include "measure/options.h"
#include "measure/output.h"
#include "measure/plan.h"
#include "measure/progress.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "(unconfigured)"
#endif

#define HANG_S 120 /* beyond what the item should take */

static volatile sig_atomic_t stop_signal;

bool
scm_is_stopped (void)
{
  return stop_signal != 0;
}

static void
on_stop (int signal)
{
  stop_signal = signal;
}

/* --- starting again --- */

/* Ready at any time, so that a signal handler needs nothing but execve: the original arguments, when the budget is spent
 * (what a lost item took counts too), and a key to avoid for each item that was lost. */
static struct
{
  char *argv[2 * SCM_MAX_AVOIDED + 64];
  int argc;
  char deadline[48];
  char key[sizeof ((ScmItem *) NULL)->key];
  bool ready;
} again;

extern char **environ;

static void
start_again (const char *why)
{
  if (!again.ready || again.key[0] == '\0' || stop_signal != 0)
    return; /* who asked it to stop wants no new start */
  again.ready = false;
  const char *parts[] = { "\nstepcast-measure: ", again.key, ": ", why, "; starting again without it\n" };
  for (int i = 0; i < 5; i++)
    if (write (STDERR_FILENO, parts[i], strlen (parts[i])) < 0)
      break;
  alarm (0);
  execve ("/proc/self/exe", again.argv, environ);
}

static void
on_crash (int signal)
{
  start_again (signal == SIGALRM ? "hangs" : "crashed in a library");
  if (stop_signal != 0)
    _exit (SCM_STATUS_SIGNAL + stop_signal);
  if (signal == SIGALRM)
    _exit (SCM_STATUS_SIGNAL + SIGALRM);
  struct sigaction action = { .sa_handler = SIG_DFL };
  sigaction (signal, &action, NULL);
  raise (signal);
}

static void
handle (int signal, void (*handler) (int))
{
  struct sigaction action = { .sa_handler = handler, .sa_flags = SA_NODEFER };
  sigemptyset (&action.sa_mask);
  sigaction (signal, &action, NULL);
}

static void
prepare_again (int argc, char **argv, const ScmOptions *options)
{
  const int room = (int) (sizeof again.argv / sizeof *again.argv);
  if (argc + 5 > room || options->n_avoided >= SCM_MAX_AVOIDED - 1)
    return; /* enough: the next one is final */
  for (int i = 0; i < argc; i++)
    again.argv[again.argc++] = argv[i];
  static char avoid[] = "--avoid";
  again.argv[again.argc++] = avoid;
  again.argv[again.argc++] = again.key;
  again.ready = true;
}

/* --- one run --- */

typedef struct
{
  ScmOptions options;
  ScmGpu gpu;
  ScmPlan plan;
  ScmOutput output;
  ScmProgress progress;
  char session[96];
  bool session_written;
  size_t n_measured, n_skipped, n_failed, n_impossible;
} Run;

static void
print_error (const char *message)
{
  fputs ("stepcast-measure: ", stderr);
  for (const unsigned char *p = (const unsigned char *) message; *p != '\0'; p++)
    if (*p < 0x20 || *p == 0x7f)
      fprintf (stderr, "\\x%02x", *p);
    else
      fputc (*p, stderr);
  fputc ('\n', stderr);
}

static int
finish_stdout (void)
{
  const bool failed = ferror (stdout) != 0;
  if (fclose (stdout) == 0 && !failed)
    return SCM_STATUS_OK;
  print_error ("standard output: cannot write");
  return SCM_STATUS_IO;
}

static int
list (const ScmOptions *options)
{
  ScmText unused = { 0 };
  ScmPlan plan;
  int gpus = scm_gpu_count (&unused);
  scm_text_clear (&unused);
  if (gpus == 0)
    gpus = 8; /* what a whole node would run */
  scm_plan_init (&plan, gpus < SCM_MAX_GPUS ? gpus : SCM_MAX_GPUS, options->gpu, options->classes);
  double seconds = 0;
  for (size_t i = 0; i < plan.n_items; i++)
    seconds += plan.items[i].seconds;
  printf ("# %zu samples, about %.0f minutes on %d GPUs; tier, key\n", plan.n_items, ceil (seconds / 60), gpus);
  for (size_t i = 0; i < plan.n_items; i++)
    printf ("%d  %s\n", plan.items[i].tier, plan.items[i].key);
  scm_plan_clear (&plan);
  return finish_stdout ();
}

static const char *
or_null (const char *text)
{
  return *text == '\0' ? NULL : text;
}

static bool
write_session (Run *run)
{
  const ScmGpu *gpu = &run->gpu;
  char started[32];
  const time_t now = time (NULL);
  struct tm utc;
  strftime (started, sizeof started, "%Y-%m-%dT%H:%M:%SZ", gmtime_r (&now, &utc));
  ScmText line = { 0 };
  scm_json_begin (&line);
  scm_json_string (&line, "class", "session");
  scm_json_integer (&line, "format", 1);
  scm_json_string (&line, "session", run->session);
  scm_json_string (&line, "started", started);
  scm_json_string (&line, "gpu", gpu->name);
  scm_json_integer (&line, "sms", gpu->sms);
  scm_json_integer (&line, "memory_bytes", (int64_t) gpu->memory_bytes);
  scm_json_integer (&line, "l2_bytes", (int64_t) gpu->l2_bytes);
  if (gpu->clock_sm_max_mhz > 0)
    scm_json_integer (&line, "clock_sm_max_mhz", gpu->clock_sm_max_mhz);
  if (gpu->clock_memory_mhz > 0)
    scm_json_integer (&line, "clock_memory_mhz", gpu->clock_memory_mhz);
  if (gpu->power_limit_w > 0)
    scm_json_integer (&line, "power_limit_w", gpu->power_limit_w);
  scm_json_string (&line, "driver", gpu->driver);
  scm_json_string (&line, "cuda", gpu->cuda);
  scm_json_string (&line, "cublaslt", or_null (gpu->libraries.cublaslt_version));
  scm_json_string (&line, "cudnn", or_null (gpu->libraries.cudnn_version));
  scm_json_string (&line, "nccl", or_null (gpu->libraries.nccl_version));
  scm_json_integer (&line, "gpus", gpu->n_devices);
  scm_json_string (&line, "program", "stepcast-measure " PACKAGE_VERSION);
  scm_json_end (&line);
  const bool written = scm_output_append (&run->output, line.bytes, line.length);
  scm_text_clear (&line);
  return written;
}

static bool
write_sample (Run *run, const ScmItem *item, const ScmResult *result)
{
  if (!run->session_written && !write_session (run))
    return false;
  run->session_written = true;
  ScmText line = { 0 };
  scm_sample_write (&line, run->session, run->gpu.name, item, result);
  const bool written = scm_output_append (&run->output, line.bytes, line.length);
  scm_text_clear (&line);
  return written;
}

static bool
is_avoided (const ScmOptions *options, const ScmItem *item)
{
  for (int i = 0; i < options->n_avoided; i++)
    if (strcmp (options->avoided[i], item->key) == 0)
      return true;
  return false;
}

static ScmOutcome
measure (ScmGpu *gpu, const ScmItem *item, ScmResult *result)
{
  static ScmOutcome (*const functions[SCM_N_CLASSES]) (ScmGpu *, const ScmItem *, ScmResult *) = {
#define ROW(name, libraries, seconds, summary) scm_run_##name,
    SCM_CLASSES (ROW)
#undef ROW
  };
  *result = (ScmResult){ .time_us = NAN, .clock_mhz = NAN, .power_w = NAN, .temperature_c = NAN, .alone_us = NAN,
                         .amount = NAN, .seconds = NAN, .tflops = NAN };
  scm_say (gpu, SCM_DONE, "%s", "no reason given");
  return functions[item->class_id](gpu, item, result);
}

/* A kernel that fails shows first in whatever call comes next, a library's too: what the GPUs of the item say now tells
 * whether they can go on. */
static void
check_devices (ScmGpu *gpu, const ScmItem *item)
{
  const bool peer = item->class_id == SCM_CLASS_copy && item->src != item->dst;
  if (peer)
    {
      scm_gpu_probe (gpu, item->src);
      scm_gpu_probe (gpu, item->dst);
    }
  for (int i = 0; i < item->gpus && i < gpu->n_devices; i++)
    scm_gpu_probe (gpu, i);
  scm_gpu_probe (gpu, gpu->device);
}

/* FALSE when the file cannot be written. */
static bool
run_item (Run *run, ScmItem *item)
{
  ScmResult result;
  const double from_s = scm_now_s ();
  snprintf (again.key, sizeof again.key, "%s", item->key);
  alarm ((unsigned) (HANG_S + 2 * item->seconds));
  const ScmOutcome outcome = measure (&run->gpu, item, &result);
  if (outcome == SCM_FAILED)
    check_devices (&run->gpu, item);
  alarm (0);
  const double took_s = scm_now_s () - from_s;
  switch (outcome)
    {
    case SCM_DONE:
      run->n_measured++;
      if (!write_sample (run, item, &result))
        return false;
      if (run->options.verbose)
        scm_progress_note (&run->progress, "%s: %.4g us, spread %.1f %%, %d repeats, %.2f s", item->key, result.time_us,
                           100 * result.spread, result.repeats, took_s);
      break;
    case SCM_SKIPPED:
      run->n_skipped++;
      if (run->options.verbose)
        scm_progress_note (&run->progress, "%s: left out: %s", item->key, run->gpu.message.bytes);
      break;
    case SCM_FAILED:
      run->n_failed++;
      scm_progress_note (&run->progress, "%s: failed: %s", item->key, run->gpu.message.bytes);
      if (scm_gpu_is_lost ())
        start_again ("ruined the CUDA context");
      break;
    case SCM_STOPPED:
    default:
      break;
    }
  /* What it took says what the rest of the class will take. */
  for (size_t i = 0; i < run->plan.n_items; i++)
    if (run->plan.items[i].class_id == item->class_id && item->class_id != SCM_CLASS_power)
      run->plan.items[i].seconds = 0.8 * run->plan.items[i].seconds + 0.2 * took_s;
  return true;
}

/* Leaves out what the file has already, and what needs a library that is missing. */
static size_t
drop_done (Run *run)
{
  size_t kept = 0, dropped = 0;
  for (size_t i = 0; i < run->plan.n_items; i++)
    {
      const ScmItem *item = &run->plan.items[i];
      if (scm_output_has (&run->output, item) || is_avoided (&run->options, item))
        dropped++;
      else if ((scm_item_libraries (item) & ~run->gpu.libraries.found) != 0)
        run->n_impossible++;
      else
        run->plan.items[kept++] = *item;
    }
  run->plan.n_items = kept;
  return dropped;
}

static int
run_plan (Run *run, double budget_until_s)
{
  size_t at = 0;
  while (stop_signal == 0)
    {
      const double left_s = budget_until_s - scm_now_s ();
      at = scm_plan_next (&run->plan, at, left_s);
      if (at >= run->plan.n_items)
        break;
      scm_progress_show (&run->progress, &run->plan.items[at], scm_now_s ());
      if (!run_item (run, &run->plan.items[at]))
        {
          scm_progress_clear (&run->progress);
          ScmText message = { 0 };
          scm_text_add (&message, "%s: cannot write: %s", run->options.output, strerror (errno));
          print_error (message.bytes);
          scm_text_clear (&message);
          return SCM_STATUS_IO;
        }
      run->progress.n_done++;
      at++;
    }
  scm_progress_note (&run->progress, "%zu samples appended to %s, %zu failed, %zu left out, %zu not reached", run->n_measured,
                     run->options.output, run->n_failed, run->n_skipped, run->plan.n_items - run->progress.n_done);
  if (stop_signal != 0)
    {
      scm_progress_note (&run->progress, "stopped by %s; run it again to go on", stop_signal == SIGINT ? "Ctrl-C" : "a signal");
      return SCM_STATUS_SIGNAL + stop_signal;
    }
  return SCM_STATUS_OK;
}

static void
print_notes (const ScmText *notes)
{
  for (const char *line = notes->bytes; line != NULL && *line != '\0';)
    {
      const size_t length = strcspn (line, "\n");
      fprintf (stderr, "stepcast-measure: %.*s\n", (int) length, line);
      line += length + (line[length] == '\n');
    }
}

static int
run_all (Run *run)
{
  const double started_s = scm_now_s ();
  ScmText message = { 0 };
  int status = scm_output_check (run->options.output, &message);
  if (status == SCM_STATUS_OK && scm_gpu_count (&message) == 0)
    status = SCM_STATUS_UNAVAILABLE;
  if (status != SCM_STATUS_OK)
    {
      print_error (message.bytes);
      scm_text_clear (&message);
      return status;
    }
  scm_libraries_load (&run->gpu.libraries, &message);
  status = scm_gpu_open (&run->gpu, run->options.gpu);
  if (status != SCM_STATUS_OK)
    {
      print_error (run->gpu.message.bytes);
      scm_text_clear (&message);
      return status;
    }
  print_notes (&message);
  scm_text_clear (&message);

  const ScmLibraries *l = &run->gpu.libraries;
  const ScmIdentity identity = { .gpu = run->gpu.name,
                                 .driver = run->gpu.driver,
                                 .cuda = run->gpu.cuda,
                                 .power_limit_w = run->gpu.power_limit_w,
                                 .cublaslt = or_null (l->cublaslt_version),
                                 .cudnn = or_null (l->cudnn_version),
                                 .nccl = or_null (l->nccl_version) };
  status = scm_output_open (&run->output, run->options.output, &identity, &message);
  if (status != SCM_STATUS_OK)
    {
      print_error (message.bytes);
      scm_text_clear (&message);
      return status;
    }
  char host[48] = "";
  gethostname (host, sizeof host - 1);
  snprintf (run->session, sizeof run->session, "%s-%lld-%ld", host, (long long) time (NULL), (long) getpid ());

  scm_plan_init (&run->plan, run->gpu.n_devices, run->options.gpu, run->options.classes);
  const size_t dropped = drop_done (run);
  scm_progress_init (&run->progress, run->plan.n_items, run->options.verbose, started_s);
  if (run->output.cut_bytes > 0)
    scm_progress_note (&run->progress, "%s: its last line was cut off and is taken away", run->options.output);
  if (run->output.n_ignored > 0)
    scm_progress_note (&run->progress, "%s: %zu lines are no samples and are ignored", run->options.output,
                       run->output.n_ignored);
  scm_progress_note (&run->progress, "GPU %d, %s; %zu to measure, %zu there already or avoided, %zu without their library",
                     run->gpu.device, run->gpu.name, run->plan.n_items, dropped, run->n_impossible);

  const double until_s = scm_budget_end (&run->options, started_s);
  if (again.ready && isfinite (until_s) && run->options.deadline_s <= 0)
    {
      snprintf (again.deadline, sizeof again.deadline, "--deadline=%.3f", until_s);
      again.argv[again.argc++] = again.deadline;
    }
  handle (SIGINT, on_stop);
  handle (SIGTERM, on_stop);
  handle (SIGALRM, on_crash);
  handle (SIGSEGV, on_crash);
  handle (SIGBUS, on_crash);
  handle (SIGFPE, on_crash);
  handle (SIGABRT, on_crash);
  status = run_plan (run, until_s);
  again.ready = false;
  return status;
}

int
main (int argc, char **argv)
{
  static Run run; /* zeros */
  run.output.fd = -1;
  ScmText message = { 0 };
  for (int fd = 0; fd <= 2; fd++)
    if (fcntl (fd, F_GETFD) < 0 && open ("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
      _exit (SCM_STATUS_IO);
  if (!scm_options_read (&run.options, argc, argv, &message))
    {
      print_error (message.bytes);
      scm_text_clear (&message);
      return SCM_STATUS_USAGE;
    }
  if (run.options.help)
    {
      scm_help_write (&message);
      fputs (message.bytes, stdout);
      scm_text_clear (&message);
      return finish_stdout ();
    }
  if (run.options.version)
    {
      puts ("stepcast-measure " PACKAGE_VERSION "\n"
            "License MIT\n"
            "This is free software: you are free to change and redistribute it.\n"
            "There is NO WARRANTY, to the extent permitted by law.");
      return finish_stdout ();
    }
  if (run.options.list)
    return list (&run.options);
  /* Both are common in training jobs; they would make what runs beside wait, and every launch slow. */
  unsetenv ("CUDA_LAUNCH_BLOCKING");
  unsetenv ("CUDA_DEVICE_MAX_CONNECTIONS");
  prepare_again (argc, argv, &run.options);
  const int status = run_all (&run);
  scm_output_close (&run.output);
  scm_plan_clear (&run.plan);
  scm_gpu_close (&run.gpu);
  return status;
}
