#!/usr/bin/env bash
# Compiles the core, and the modules of the shell that process every event, with mypyc in a copy of
# the tree, unless the copy was made from the same files. The copy (build/compiled) keeps the working
# tree free of extension modules, which would hide the sources.
#   usage: [INORDER_COMPILE=all] infra/compiled_tree.sh PYTHON
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(realpath --no-symlinks "$1")
copy=build/compiled

# Copies all files that git tracks, because tests of the core may use workloads from other packages.
files() {
    git ls-files -z --cached --others --exclude-standard -- '*.py' '*.pyi' '*.pyx' '*.pxd' '*.lark' pyproject.toml tests docs |
        while IFS= read -r -d '' file; do [[ ! -f $file ]] || printf '%s\0' "$file"; done | sort -zu
}

made_of=$( (files | xargs -0 sha256sum; "$python" -VV; echo "${INORDER_COMPILE:-1}") | sha256sum)
[[ ! -f $copy/.made_of || $(<"$copy/.made_of") != "$made_of" ]] || exit 0
rm -rf "$copy"
mkdir -p "$copy"
files | tar --create --null --files-from=- | tar --extract --directory="$copy"
(cd "$copy" && INORDER_COMPILE="${INORDER_COMPILE:-1}" "$python" setup.py --quiet build_ext --inplace)
echo "$made_of" > "$copy/.made_of"
