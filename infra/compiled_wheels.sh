#!/usr/bin/env bash
# Builds wheels with the compiled core into dist/ for every supported CPython on this machine, and a
# pure wheel. Each is then installed into an empty environment and tested there.
#   usage: infra/compiled_wheels.sh [PYTHON...]     (default: python3.11 python3.12 python3.13 python3.14)
set -euo pipefail
cd "$(dirname "$0")/.."
[[ $# -gt 0 ]] || set -- python3.11 python3.12 python3.13 python3.14
built=0
for python in "$@"; do
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || {
        echo "$python was not found: no wheel is built for it" >&2
        continue
    }
    home=build/wheels/$version
    [[ -x $home/bin/python ]] || "$python" -m venv "$home"
    "$home/bin/python" -m pip --disable-pip-version-check --quiet install --require-hashes \
        -r infra/locks/tests.txt
    infra/wheels.sh "$home/bin/python" dist compiled
    INORDER_WHEELS=dist "$home/bin/python" -m pytest --quiet tests/infra/test_wheels.py
    built=$((built + 1))
done
[[ $built -gt 0 ]] || { echo "no CPython 3.11 to 3.14 was found" >&2; exit 1; }
ls dist
