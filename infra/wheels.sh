#!/usr/bin/env bash
# Builds both distributions, `inorder` and `inorder-engine`, from a copy of what git knows, so that
# nothing of an earlier build gets in.
#   usage: infra/wheels.sh PYTHON [FOLDER]     (default: dist)
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(realpath --no-symlinks "$1")
mkdir -p "${2:-dist}"
folder=$(realpath "${2:-dist}")
copy=$(mktemp --directory)
trap 'rm -rf "$copy"' EXIT

git ls-files -z --cached --others --exclude-standard -- ':!tests' |
    while IFS= read -r -d '' file; do [[ ! -e $file ]] || printf '%s\0' "$file"; done |
    tar --create --null --files-from=- | tar --extract --directory="$copy"
"$python" -m pip --disable-pip-version-check --quiet wheel --no-deps --no-build-isolation \
    --no-cache-dir --wheel-dir "$folder" "$copy/inorder" "$copy"
