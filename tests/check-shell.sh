#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# check-shell.sh - shellcheck has nothing to say about the scripts; skipped where it is not installed.
set -eu
cd "$(dirname "$0")/.."
if ! command -v shellcheck >/dev/null; then
  echo "shellcheck is not installed"
  exit 77
fi
set -- bootstrap quickstart selftest
for file in .ci/run scripts/*.sh src/*.sh tests/*.sh bench/*.sh examples/*.sh; do
  if [ -f "$file" ]; then
    set -- "$@" "$file"
  fi
done
shellcheck --external-sources --source-path=SCRIPTDIR "$@"
