# shellcheck shell=sh
# SPDX-License-Identifier: GPL-3.0-or-later
# steps.sh - what quickstart and selftest share: steps with one line of progress each, and missing packages.
# Read by them with `.`, in the folder of the sources.

# Name of the script for messages; where the output of steps goes.
me=${0##*/}
logs=$(mktemp -d "${TMPDIR:-/tmp}/stepcast-$me-XXXXXX")
trap 'rm -rf "$logs"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
n_jobs=$(nproc 2>/dev/null || echo 2)
# make_in FOLDER ARGUMENT...
make_in ()
{
  folder=$1
  shift
  make -C "$folder" -j "$n_jobs" --no-print-directory "$@"
}

# start TITLE, finish RESULT: one line of progress, with the seconds between the two.
start ()
{
  step_start=$(date +%s)
  printf '  %-34s ' "$1"
}

finish ()
{
  printf '%s (%d s)\n' "$1" "$(($(date +%s) - step_start))"
}

# step TITLE COMMAND...: runs it quietly.  Where it fails: the end of what it printed, and the end of the script.
step ()
{
  start "$1"
  shift
  step_status=0
  "$@" >"$logs/step" 2>&1 </dev/null || step_status=$?
  if [ "$step_status" -ne 0 ]; then
    finish failed
    tail -n 30 "$logs/step" | sed 's/^/    /' >&2
    echo "$me: failed (status $step_status): $*" >&2
    exit "$step_status"
  fi
  finish ok
}

# --- packages ---------------------------------------------------------------------------------------------------------

# What we need is asked for by what it does, so that any way of having it will do; then come Debian's names.
has_command () { command -v "$1" >/dev/null 2>&1; }
has_library () { pkg-config --exists "$1" 2>/dev/null; }
has_macros () { test -f "$(aclocal --print-ac-dir 2>/dev/null)/ax_append_compile_flags.m4"; }
has_libc () { test -f /usr/include/stdio.h; }

missing_packages ()
{
  has_command gcc || echo gcc
  has_libc || echo libc6-dev
  has_command make || echo make
  has_command autoconf || echo autoconf
  has_command automake || echo automake
  has_macros || echo autoconf-archive
  has_command pkg-config || echo pkg-config
  has_library glib-2.0 || echo libglib2.0-dev
  has_library libcjson || echo libcjson-dev
  has_library gsl || echo libgsl-dev
  has_library zlib || echo zlib1g-dev
  if [ "$1" = tests ]; then
    has_library check || echo check
    has_command valgrind || echo valgrind
    has_command help2man || echo help2man
  fi
}

apt ()
{
  set -- env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 "$@"
  if [ "$(id -u)" -ne 0 ]; then
    set -- sudo "$@"
  fi
  "$@"
}

# A machine's package lists may be new enough; a repository that does not answer must not stop the others.
apt_install ()
{
  apt install --no-install-recommends "$@" && return
  apt update || echo "apt-get update failed; trying with what it got"
  apt install --no-install-recommends "$@"
}

# install_missing build|tests
install_missing ()
{
  missing=$(missing_packages "$1" | tr '\n' ' ')
  if [ -z "$missing" ]; then
    return
  fi
  if ! has_command apt-get; then
    echo "$me: missing here; their Debian names are: $missing" >&2
    exit 69
  fi
  if [ "$(id -u)" -ne 0 ] && ! has_command sudo; then
    echo "$me: neither root nor sudo; have these installed: $missing" >&2
    exit 69
  fi
  # Asks for the password, if it must, before the output goes to a log.
  if [ "$(id -u)" -ne 0 ]; then
    sudo -v
  fi
  echo "  by apt: $missing"
  # shellcheck disable=SC2086 # one word per package
  step 'packages' apt_install $missing
}

# --- building ---------------------------------------------------------------------------------------------------------

# configured FOLDER OPTION...: what is there was configured with these options, and perhaps others.
configured ()
{
  [ -f "$1/Makefile" ] || return 1
  options=$("./$1/config.status" --config | tr -d "'")
  shift
  for option; do
    case " $options " in
      *" $option "*) ;;
      *) return 1 ;;
    esac
  done
}

# configure_in FOLDER OPTION...: unless that was done; make itself sees later changes.
configure_in ()
{
  if ! configured "$@"; then
    folder=$1
    shift
    mkdir -p "$folder"
    step "configure in $folder/" env --chdir="$folder" ../configure --quiet "$@"
  fi
}
