#!/bin/sh
# Makes sure of what pip can not bring: Python 3.11 or newer with venv, g++ and make.
# As root on a machine with apt-get it installs what is missing; otherwise it names it and exits 2.
# Prints the Python to use, and only that, on stdout. PYTHON=… in the environment names one.
# Safe to repeat; does nothing when nothing is missing.
set -eu

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    for name in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14}; do
        if new_enough "$name"; then
            "$name" -c 'import sys; print(sys.executable)'
            return
        fi
    done
}

# The Debian packages that are missing, on one line.
missing() {
    python=$(find_python)
    if [ -z "$python" ]; then
        printf ' python3 python3-venv'
    elif ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        "$python" -c 'import sys; print(" python3.%d-venv" % sys.version_info[1], end="")'
    fi
    for tool in g++ make; do
        command -v "$tool" >/dev/null 2>&1 || printf ' %s' "$tool"
    done
}

give_up() {
    echo "opfarm: $1" >&2
    exit 2
}

if [ -n "${PYTHON:-}" ] && ! new_enough "$PYTHON"; then
    give_up "PYTHON=$PYTHON does not run or is older than Python 3.11."
fi

lacking=$(missing)
if [ -n "$lacking" ]; then
    command -v apt-get >/dev/null 2>&1 ||
        give_up "this machine lacks:$lacking (Debian's names). Install them, then run this again."
    [ "$(id -u)" = 0 ] ||
        give_up "this machine lacks:$lacking. Run: sudo apt-get install$lacking"
    echo "opfarm: installing$lacking with apt-get" >&2
    export DEBIAN_FRONTEND=noninteractive
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    # shellcheck disable=SC2086  # a list of names
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends $lacking; } </dev/null >"$log" 2>&1 || {
        tail -20 "$log" >&2
        give_up "apt-get could not install$lacking; its last words are above."
    }
    lacking=$(missing)
    [ -z "$lacking" ] ||
        give_up "still missing after apt-get:$lacking. PYTHON=/path/to/python3.12 names a Python."
fi
find_python
