#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# check-layers.sh - keeps the rules that no compiler checks: includes point down only (src, src/models, src/sim), the
# lower layers do no input or output and have no state of their own, and each source file says its licence.
set -eu
LC_ALL=C
export LC_ALL
builddir=$(pwd)
cd "$(dirname "$0")/.."
failed=0

# refuse RULE FOUND: what was found breaks RULE.
refuse ()
{
  if [ -n "$2" ]; then
    printf '%s:\n%s\n\n' "$1" "$2"
    failed=1
  fi
}

# find_in PATTERN FILE...: as grep, but nothing found is no failure.
find_in ()
{
  grep -nE "$@" || true
}

include='^[[:space:]]*#[[:space:]]*include[[:space:]]*'
refuse 'src/sim includes only sim/ and system headers' \
  "$(find_in "$include\"" src/sim/*.[ch] | grep -vE '"(config\.h|sim/[^"]*)"')"
refuse 'src/models includes only models/, sim/ and system headers' \
  "$(find_in "$include\"" src/models/*.[ch] | grep -vE '"(config\.h|sim/[^"]*|models/[^"]*)"')"
refuse 'the lower layers do no input or output, and know no JSON' \
  "$(find_in "$include<(cjson/|stdio\.h|fcntl\.h|unistd\.h|gio/|glib/gstdio\.h)" src/sim/*.[ch] src/models/*.[ch])"
calls='(v?f?printf|f?puts|putchar|perror|fopen|g_print|g_printerr|g_message|g_warning|g_file_[a-z_]+|g_getenv'
calls="$calls|g_get_monotonic_time|g_get_real_time|cJSON_[A-Za-z]+)"
refuse 'the lower layers do not print, read files, look at the environment or at the clock' \
  "$(find_in "(^|[^A-Za-z0-9_])${calls}[[:space:]]*\(" src/sim/*.[ch] src/models/*.[ch])"

refuse 'src/measure is under another licence: it includes only measure/ and system headers, and nothing else includes it' \
  "$(find_in "$include\"" src/measure/*.[ch] src/measure/*.cu | grep -vE '"(config\.h|measure/[^"]*)"'
     find_in "$include\"measure/" src/*.[ch] src/models/*.[ch] src/sim/*.[ch])"
refuse 'the program that measures needs neither GLib nor cJSON' \
  "$(find_in "$include<(glib|gio|gsl|cjson)" src/measure/*.[ch] src/measure/*.cu)"

# State would show in the writable sections of the archives; error domains (q.N) are GLib's.  Sanitizers and coverage
# put their own counters there.
for archive in libsim.a libmodels.a; do
  if [ ! -f "$builddir/$archive" ] || ! symbols=$(objdump -t "$builddir/$archive" 2>/dev/null); then
    continue
  fi
  case $symbols in
    *__asan_* | *__gcov_*) continue ;;
  esac
  refuse "$archive has no mutable globals" "$(printf '%s\n' "$symbols" |
    awk '$3 == "O" && $4 ~ /^\.(data|bss)/ && $4 !~ /^\.data\.rel\.ro/ && $NF !~ /^q\.[0-9]+$/ { print $NF }')"
done

# without_licence LINES PATTERN FILE...: the files whose first LINES lines have no such line.
without_licence ()
{
  lines=$1
  pattern=$2
  shift 2
  for file; do
    if [ -f "$file" ] && ! head -n "$lines" "$file" | grep -q "$pattern"; then
      echo "$file"
    fi
  done
}

licence='SPDX-License-Identifier: GPL-3.0-or-later'
refuse "the first line of a C file is /* $licence */" \
  "$(without_licence 1 "^/\* $licence \*/\$" src/*.[ch] src/models/*.[ch] src/sim/*.[ch] tests/*.[ch] bench/*.[ch])"
refuse 'the first line of a file of src/measure is /* SPDX-License-Identifier: MIT */' \
  "$(without_licence 1 '^/\* SPDX-License-Identifier: MIT \*/$' src/measure/*.[ch] src/measure/*.cu)"
refuse 'a script or build file has its SPDX line among the first two' \
  "$(without_licence 2 "$licence\$" configure.ac Makefile.am ./*/local.am src/*/local.am bootstrap quickstart selftest \
     .ci/run scripts/*.sh src/*.sh tests/*.sh bench/*.sh examples/*.sh)"

exit "$failed"
