#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# check-lists.sh - every source file, data file and test is in the lists that automake builds and packs from.
set -eu
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.."
failed=0

if ! ./bootstrap --list | diff -u data.am -; then
  printf 'data.am is not what the folders hold: run ./bootstrap\n\n'
  failed=1
fi

# listed NAME FRAGMENT: the fragment has that word.
listed ()
{
  tr -s '[:blank:]' '[\n*]' <"$2" | grep -qxF -e "$1"
}

# want FILE NAME FRAGMENT: FILE is listed there as NAME.
want ()
{
  [ -f "$1" ] || return 0
  if ! listed "$2" "$3"; then
    echo "$1: not listed in $3"
    failed=1
  fi
}

for file in src/sim/*.[ch]; do want "$file" "$file" src/sim/local.am; done
for file in src/models/*.[ch]; do want "$file" "$file" src/models/local.am; done
for file in src/measure/*.[ch] src/measure/*.cu; do want "$file" "$file" src/measure/local.am; done
for file in src/*.[ch]; do
  case $file in
    src/main.c | src/data.c) ;;
    *) want "$file" "$file" src/local.am ;;
  esac
done
for file in tests/check_*.c; do want "$file" "${file%.c}" tests/local.am; done
for file in tests/*.sh tests/*.h; do want "$file" "$file" tests/local.am; done
for file in bench/*.c; do want "$file" "${file%.c}" bench/local.am; done
for file in bench/*.sh bench/*.h; do want "$file" "$file" bench/local.am; done

for file in examples/*.sh; do want "$file" "$file" Makefile.am; done

for file in tests/golden/*.cmd; do
  if [ -f "$file" ] && [ ! -f "${file%.cmd}.out" ]; then
    echo "$file: has no .out; UPDATE=1 make check writes it"
    failed=1
  fi
done

exit "$failed"
