#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# shown.sh - a document whose blocks show what commands print, with what they print now.
#
# usage: scripts/shown.sh STEPCAST DOCUMENT >NEW
#
# A block of ``` that begins with "$ stepcast ..." or "$ for ..." (continued behind a backslash) is a command and its output; they run in the
# order of the page, in one folder that has tests/.  A block behind the line <!-- shown: COMMAND --> is the output alone.  An exit
# status of 1 is an answer, a higher one of any command ends the run.  Environment: RUN is put before the program.
set -eu
srcdir=$(cd "$(dirname "$0")/.." && pwd)
program=$1
document=$2
scratch=$(mktemp -d "${TMPDIR:-/tmp}/stepcast-shown-XXXXXX")
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/bin" "$scratch/here"
cat >"$scratch/bin/stepcast" <<END
#!/bin/sh
${RUN-} "$(cd "$(dirname "$program")" && pwd)/$(basename "$program")" "\$@" || status=\$?
[ "\${status-0}" -le 1 ] || echo "\$status" >>"$scratch/failed"
exit "\${status-0}"
END
chmod +x "$scratch/bin/stepcast"
PATH=$scratch/bin:$PATH
export PATH
ln -s "$srcdir/tests" "$scratch/here/tests"

# show COMMAND: what it prints, in the folder of the page.
show ()
{
  status=0
  (cd "$scratch/here" && sh -c "$1" </dev/null) || status=$?
  if [ "$status" -gt 1 ] || [ -e "$scratch/failed" ]; then
    echo "$document: a command of \"$1\" fails" >&2
    exit 1
  fi
}

state=text # text, first (line of a block), typed (a command), skip (what was printed), as_is (another block)
command=
while IFS= read -r line || [ -n "$line" ]; do
  case $state in
    text | first | typed | as_is)
      printf '%s\n' "$line"
      ;;
  esac
  case $state:$line in
    'text:<!-- shown: '*' -->')
      command=${line#'<!-- shown: '}
      command=${command%' -->'}
      ;;
    text:'```'*)
      state=first
      if [ -n "$command" ]; then
        show "$command"
        command=
        state=skip
      fi
      ;;
    first:'$ stepcast '* | first:'$ for '* | typed:*)
      command=$command${line#'$ '}
      state=typed
      case $line in
        *\\)
          command=${command%\\}
          ;;
        *)
          show "$command"
          command=
          state=skip
          ;;
      esac
      ;;
    first:'```' | as_is:'```')
      state=text
      ;;
    first:*)
      state=as_is
      ;;
    skip:'```')
      printf '%s\n' "$line"
      state=text
      ;;
  esac
done <"$document"
