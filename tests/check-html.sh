#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# check-html.sh - run --html writes one page that needs nothing else; with STEPCAST_LONG=1 and a Chromium its script draws the timeline.
set -eu
scratch=$(mktemp -d "${TMPDIR:-/tmp}/stepcast-html-XXXXXX")
trap 'rm -rf "$scratch"' EXIT
page=$scratch/page.html
${RUN-} "$STEPCAST" run --detail stage --set plan.global_batch=16 -o /dev/null --html "$page"
failed=0

# fails WHAT COMMAND...: says so where the command succeeds.
fails ()
{
  what=$1
  shift
  if "$@"; then
    echo "$what" >&2
    failed=1
  fi
}

for part in '<canvas id="tl">' 'var D={step:' '<svg ' 'Where the time goes' 'Hottest links' '<summary>workload</summary>' '</html>'; do
  grep -qF -- "$part" "$page" || fails "the page has no $part" true
done
sed '/<pre>/,/<.pre>/d; s|http://www.w3.org/2000/svg||' "$page" >"$scratch/rest"
fails 'the page asks the network' grep -qE '(src|href)=|https?://|@import|url\(' "$scratch/rest"
# every stage has its blocks: 2 passes of 5 chunks and 8 micro-batches, five numbers each
for stage in 0 1 2 3; do
  n=$(sed -n "s/^{stage:$stage,.*blocks:\[\([^]]*\)\].*/\1/p" "$page" | tr ',' '\n' | wc -l)
  [ "$n" -eq $((5 * 2 * 5 * 8)) ] || fails "stage $stage: found $n numbers" true
done

browser=$(command -v chromium || true)
if [ -n "${STEPCAST_LONG-}" ] && [ -n "$browser" ]; then
  timeout 120 "$browser" --headless --no-sandbox --disable-gpu --dump-dom "file://$page" >"$scratch/dom" 2>/dev/null
  grep -q '<canvas id="tl"[^>]*height' "$scratch/dom" || fails 'the script did not draw' true
fi
exit "$failed"
