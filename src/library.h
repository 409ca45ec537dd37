/* SPDX-License-Identifier: GPL-3.0-or-later */
/* library.h - finds topologies, devices, workloads and measurements: files, installed data, and the copies inside the program. */
#pragma once
#include <glib.h>
#include "json-in.h"

/* Nothing we read comes near this; the largest shipped file has some kB. */
#define SC_LIBRARY_MAX_BYTES (16u << 20)

#define SC_LIBRARY_ERROR (sc_library_error_quark ())
GQuark sc_library_error_quark (void);
typedef enum
{
  SC_LIBRARY_ERROR_NOT_FOUND,  /* no file and no shipped data of that name: exit status 66 */
  SC_LIBRARY_ERROR_NOT_A_FILE, /* a folder, a socket, a disk: 65 */
  SC_LIBRARY_ERROR_TOO_LARGE,  /* more than SC_LIBRARY_MAX_BYTES: 65 */
  SC_LIBRARY_ERROR_IO,         /* there, but cannot be read: 74 */
} ScLibraryError;

#define SC_KIND_TOPOLOGY "topology" /* topologies/NAME.json */
#define SC_KIND_DEVICE   "device"   /* topologies/devices/NAME.json */
#define SC_KIND_CALIBRATION "calibration" /* calibrations/NAME.json */
#define SC_KIND_WORKLOAD "workload" /* workloads/NAME.json */
#define SC_KIND_MEASUREMENTS "set of measurements" /* validation/NAME.jsonl */
#define SC_KIND_RULES "set of rules"               /* validation/NAME.json: what was measured there */

/* One shipped file inside the program. */
typedef struct
{
  const char *kind;   /* one of SC_KIND_ */
  const char *name;   /* without folder and suffix */
  const char *text;   /* as shipped, byte by byte; NUL-ended */
  gsize       length; /* without the NUL */
} ScLibraryRow;

/* Topologies, devices, workloads, measurements, rules, each by name; ends with a row whose kind is NULL.  embed.sh writes it (data.c). */
extern const ScLibraryRow sc_library_table[];

/* The row after @row of that @kind (NULL: of any), the first if @row is NULL; NULL after the last. */
const ScLibraryRow *sc_library_next (const ScLibraryRow *row, const char *kind);

/* Text of the copy inside the program, or NULL.  @name: with or without its suffix, with or without its folder.
 * @ret_length may be NULL. */
const char *sc_library_find (const char *kind, const char *name, gsize *ret_length);

/* What a user's @argument names, read whole; NUL-ended, and yours.  The first of these that exists:
 *   - "-": standard input
 *   - a file of that path (anything but a folder)
 *   - that name (as for sc_library_find) below a folder of the colon-separated list STEPCAST_DATA_PATH;
 *     where it is not set: below the folder in which the program's data is installed
 *   - the copy inside the program.
 * @ret_display_name (may be NULL): what to call it in messages, yours: "(stdin)", the path, or for the copy inside the
 * program its path in the source tree, so that names relative to it resolve here as well.  @ret_length may be NULL. */
char *sc_library_load (const char *kind, const char *argument, char **ret_display_name, gsize *ret_length,
                       GError **error);

/* The same, parsed: @kind's files are one JSON value each.  Errors of both. */
ScJson *sc_library_load_json (const char *kind, const char *argument, GError **error);

/* All of the file @path, NUL-ended; NULL and SC_LIBRARY_ERROR.  @expected: what it should be, for messages ("a log"). */
char *sc_library_read_file (const char *path, const char *expected, guint max_bytes, gsize *ret_length, GError **error);
