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

# A release of inorder-engine needs inorder of the same version. Its page at the package index is README.md, whose
# links lead to this version's files.
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$copy/inorder/__init__.py")
sed -i.before "s/^    \"inorder\",/    \"inorder==$version\",/" "$copy/pyproject.toml"
grep --quiet "\"inorder==$version\"" "$copy/pyproject.toml"
infra/absolute_links.sh "$version" <README.md >"$copy/README.md"

for sources in "$copy/inorder" "$copy"; do
    (cd "$sources" && INORDER_COMPILE=0 "$python" -c \
        'import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])' \
        "$folder" >/dev/null)
done

# Wheels come from the archives, which so are shown to be complete.
wheel() {
    local compile=$1 distribution=$2
    rm -rf "$copy/unpacked"
    mkdir "$copy/unpacked"
    tar --extract --gzip --file "$folder/$distribution-$version.tar.gz" --directory "$copy/unpacked" --strip-components 1
    INORDER_COMPILE=$compile "$python" -m pip --disable-pip-version-check --quiet wheel --no-deps \
        --no-build-isolation --no-cache-dir --wheel-dir "$folder" "$copy/unpacked"
}

wheel 0 inorder
wheel 0 inorder_engine
[[ -z ${3:-} ]] || wheel 1 inorder_engine
