# Sourced by the other scripts: makes .venv from requirements.lock when it is missing or older than the lock.
# Needs Python 3.11 or newer and the package index, nothing else.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

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

# The stamp holds what was installed: a changed lock or launcher installs again, an equal one costs nothing.
wanted=$(cat requirements.lock scripts/schemactl pyproject.toml | cksum)
if [ "$(cat .venv/.installed 2>/dev/null)" != "$wanted" ]; then
    python=$(find_python)
    echo "Making .venv with $("$python" --version) from requirements.lock ..." >&2
    rm -rf .venv
    "$python" -m venv .venv
    .venv/bin/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements.lock
    .venv/bin/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
    printf '%s\n' "$wanted" > .venv/.installed
fi
unset PYTHONPATH PYTHONHOME
export PATH="$PWD/.venv/bin:$PATH"
