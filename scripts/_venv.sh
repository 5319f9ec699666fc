# Sourced by the other scripts: makes .venv from requirements.lock when it is missing or older than the lock.
# Needs Python 3.11 or newer and the package index, nothing else.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# pip takes what it finds there for installed.
unset PYTHONPATH PYTHONHOME

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11; do
        if [ -n "$candidate" ] && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    echo "No Python 3.11 or newer was found on PATH. Install one, or set PYTHON to its path." >&2
    exit 1
}

# Holds the lock of a file through a descriptor of this shell, which keeps it after Python has ended.
lock() {
    "$1" - "$2" "$3" << 'PYTHON'
import fcntl
import sys

descriptor, message = int(sys.argv[1]), sys.argv[2]
try:
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print(message, file=sys.stderr)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
PYTHON
}

# The stamp holds what was installed: a changed lock, launcher or project installs again, an equal one costs nothing.
installed() {
    [ "$(cat .venv/.installed 2>/dev/null)" = "$wanted" ]
}

wanted=$(cat requirements.lock scripts/schemactl pyproject.toml | cksum)
if ! installed; then
    # Its own Python goes away with an activated .venv.
    PATH=":$PATH:" && PATH="${PATH//":$PWD/.venv/bin:"/:}" && PATH="${PATH#:}" && PATH="${PATH%:}"
    python=$(find_python)
    exec 9>> .venv.lock
    lock "$python" 9 "Another command is making .venv; waiting for it ..."
    if ! installed; then
        echo "Making .venv with $("$python" --version) from requirements.lock ..." >&2
        rm -rf .venv
        "$python" -m venv .venv
        .venv/bin/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements.lock
        .venv/bin/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
        printf '%s\n' "$wanted" > .venv/.installed
    fi
    exec 9>&-
fi
export PATH="$PWD/.venv/bin:$PATH"
