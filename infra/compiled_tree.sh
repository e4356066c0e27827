#!/usr/bin/env bash
# Compiles the core, and what of the shell every event passes, with mypyc in a copy of the tree.
# The copy (build/compiled) keeps the working tree free of extension modules,
# which would hide the sources.
#   usage: infra/compiled_tree.sh PYTHON
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(realpath --no-symlinks "$1")
copy=build/compiled

# Whole rooms, for tests of the core may use workloads from others; git knows which.
rm -rf "$copy"
mkdir -p "$copy"
git ls-files -z --cached --others --exclude-standard -- '*.py' '*.pyi' '*.pyx' '*.pxd' '*.lark' pyproject.toml tests docs |
    while IFS= read -r -d '' file; do [[ ! -f $file ]] || printf '%s\0' "$file"; done |
    sort -zu | tar --create --null --files-from=- | tar --extract --directory="$copy"
cd "$copy"
INORDER_COMPILE=1 "$python" setup.py --quiet build_ext --inplace
