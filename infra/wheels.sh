#!/usr/bin/env bash
# Builds wheels and archives of the sources from a copy of the files that git lists, so that they
# contain nothing of an earlier build: `inorder` and a pure `inorder-engine`. With COMPILED it also
# builds a wheel with the compiled core for PYTHON (this needs a C compiler, and a minute on two
# processors).
#   usage: infra/wheels.sh PYTHON [FOLDER] [COMPILED]     (default: dist, no)
# PYTHON must have the packages of infra/locks/build.txt.
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

wheels() {
    "$python" -m pip --disable-pip-version-check --quiet wheel --no-deps --no-build-isolation \
        --no-cache-dir --wheel-dir "$folder" "$@"
}

INORDER_COMPILE=0 wheels "$copy/inorder" "$copy"
for sources in "$copy/inorder" "$copy"; do
    (cd "$sources" && INORDER_COMPILE=0 "$python" -c \
        'import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])' \
        "$folder" >/dev/null)
done
if [[ -n ${3:-} ]]; then
    rm -rf "$copy/build"
    INORDER_COMPILE=1 wheels "$copy"
fi
