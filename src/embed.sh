#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# embed.sh - prints the shipped JSON and JSON-lines files as the C table in which library.c looks names up.
# usage: embed.sh SRCDIR FILE...   (paths below SRCDIR; their folder says of which kind they are)
set -eu
LC_ALL=C
export LC_ALL
srcdir=$1
shift

# names FOLDER SUFFIX FILE...: the files right in that folder, sorted as people sort names.
names ()
{
  folder=$1
  suffix=$2
  shift 2
  printf '%s\n' "$@" | sed -n "s|^\($folder/[^/]*\)\.$suffix\$|\1|p" | sort | sed "s|\$|.$suffix|"
}

print_texts ()
{
  i=0
  for path; do
    printf '\nstatic const char text_%d[] = { /* %s */\n' "$i" "$path"
    od -An -v -tx1 "$srcdir/$path" | sed "s/ *\([0-9a-f][0-9a-f]\)/'\\\\x\1',/g"
    printf '%s\n' "'\\0' };"
    i=$((i + 1))
  done
}

print_rows ()
{
  i=0
  for path; do
    case $path in
      topologies/devices/*) kind=device ;;
      topologies/*) kind=topology ;;
      calibrations/*) kind=calibration ;;
      validation/*.jsonl) kind='set of measurements' ;;
      validation/*) kind='set of rules' ;;
      *) kind=workload ;;
    esac
    name=${path##*/}
    printf '  { "%s", "%s", text_%d, sizeof text_%d - 1 },\n' "$kind" "${name%.json*}" "$i" "$i"
    i=$((i + 1))
  done
}

# shellcheck disable=SC2046 # one word per name: make could not have passed others
set -- $(names topologies json "$@"; names topologies/devices json "$@"; names calibrations json "$@"; names workloads json "$@"
  names validation jsonl "$@"; names validation json "$@")

echo '/* SPDX-License-Identifier: GPL-3.0-or-later */'
echo '/* data.c - the shipped topologies, devices, workloads and measurements; written by embed.sh. */'
echo '#include "library.h"'
print_texts "$@"
printf '\nconst ScLibraryRow sc_library_table[] = {\n'
print_rows "$@"
printf '  { NULL, NULL, NULL, 0 },\n};\n'
