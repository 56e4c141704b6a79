# Shared by the scripts in this folder: sourced, never run. Works with bash 3.2 (macOS) too.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export PIP_DISABLE_PIP_VERSION_CHECK=1

say() { printf '==> %s\n' "$*"; }

die() {
  printf 'error: %s\n' "$1" >&2
  shift
  for line in "$@"; do printf '       %s\n' "$line" >&2; done
  exit 1
}

# The real path of a Python that runs, is 3.11 or newer and can make virtual environments.
# Each candidate is run: a version manager's shim can be on PATH and still fail.
find_python() {
  local probe='import sys, venv, ensurepip
if sys.version_info < (3, 11): sys.exit(1)
print(sys.executable)'
  local candidate found
  if [ -n "${PYTHON:-}" ]; then
    set -- "$PYTHON"
  else
    set -- python3 python3.13 python3.12 python3.11
  fi
  for candidate in "$@"; do
    if found=$("$candidate" -c "$probe" 2>/dev/null); then
      printf '%s\n' "$found"
      return 0
    fi
  done
  if [ -n "${PYTHON:-}" ]; then
    die "PYTHON=$PYTHON is no usable Python 3.11+ (it must run and have venv and ensurepip)."
  fi
  die "no usable Python 3.11+ found: tried python3, python3.13, python3.12, python3.11." \
    "Install one (on Debian and Ubuntu also python3-venv), or name yours: make test PYTHON=/path/to/python3"
}

# run_step LABEL LOG COMMAND…: run quietly, show a sign of life every 20 s, the log's end on failure.
run_step() {
  local label=$1 log=$2 started=$SECONDS waited=0 pid
  shift 2
  say "$label"
  printf '\n# %s\n' "$*" >>"$log"
  "$@" >>"$log" 2>&1 &
  pid=$!
  trap 'kill "$pid" 2>/dev/null; exit 130' INT TERM
  while kill -0 "$pid" 2>/dev/null; do
    sleep 1
    waited=$((waited + 1))
    if [ $((waited % 20)) -eq 0 ]; then
      printf '    %d s … %s\n' "$waited" "$(tail -n 1 "$log" | tr -d '\r' | cut -c1-80)"
    fi
  done
  trap - INT TERM
  if ! wait "$pid"; then
    tail -n 15 "$log" >&2
    return 1
  fi
  printf '    done in %d s\n' $((SECONDS - started))
}
