#!/usr/bin/env bash
# Compiles the core, and what of the shell every event passes, with mypyc in a copy of
# the tree and runs their tests there.
# The copy (build/compiled) keeps the working tree free of extension modules,
# which would hide the sources.
#   usage: infra/compiled.sh PYTHON [pytest arguments]
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(realpath --no-symlinks "$1")
shift
copy=build/compiled
# The traces lie beside the tree, not beside the copy (benchmarks/traces.py).
[[ ! -d ../shared/data ]] || export INORDER_DATA="${INORDER_DATA:-$(realpath ../shared/data)}"

# Whole rooms, for tests of the core may use workloads from others; git knows which.
rm -rf "$copy"
mkdir -p "$copy"
git ls-files -z --cached --others --exclude-standard -- '*.py' '*.pyi' '*.pyx' '*.pxd' '*.lark' pyproject.toml tests docs |
    while IFS= read -r -d '' file; do [[ ! -f $file ]] || printf '%s\0' "$file"; done |
    sort -zu | tar --create --null --files-from=- | tar --extract --directory="$copy"
cd "$copy"

INORDER_COMPILE=1 "$python" setup.py --quiet build_ext --inplace
chosen=()
for tests in tests/topology tests/laws tests/oracle tests/simulation \
    tests/agents/stage/test_{arrival,inlet,outlet,outbox}.py tests/agents/state/test_held.py \
    tests/agents/watch/metrics/test_worker.py; do
    [[ ! -e $tests ]] || chosen+=("$tests")
done
INORDER_EXPECT_COMPILED=1 "$python" -m pytest "${chosen[@]}" "$@"
