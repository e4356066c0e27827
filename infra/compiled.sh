#!/usr/bin/env bash
# Runs the tests of the compiled modules on the compiled tree.
#   usage: infra/compiled.sh PYTHON [pytest arguments]
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(realpath --no-symlinks "$1")
shift
infra/compiled_tree.sh "$python"
# The traces are next to the working tree, not next to the copy (benchmarks/traces.py).
[[ ! -d ../shared/data ]] || export INORDER_DATA="${INORDER_DATA:-$(realpath ../shared/data)}"
cd build/compiled
chosen=()
for tests in tests/topology tests/benchmarks/published tests/laws tests/simulation \
    tests/agents/stage/test_{arrival,inlet,outlet}.py tests/agents/state/test_held.py \
    tests/agents/watch/metrics/test_worker.py tests/inorder/test_dropped_ordering.py; do
    chosen+=("$tests")
done
INORDER_EXPECT_COMPILED=1 "$python" -m pytest "${chosen[@]}" "$@"
