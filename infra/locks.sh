#!/usr/bin/env bash
# Rewrites infra/locks/ from pyproject.toml. A lock leaves out the packages of the locks that it includes.
#   usage: infra/locks.sh UV [--upgrade | --upgrade-package NAME]
# Pins do not change if pyproject.toml still allows them.
set -euo pipefail
uv=$(realpath --no-symlinks "$1")
cd "$(dirname "$0")/locks"
copy=$(mktemp --directory)
trap 'rm -rf "$copy"' EXIT
cp -r ../../pyproject.toml ../../inorder "$copy"

# uv's own lock leaves out wheels for other versions of Python, and takes pins only as constraints.
sed -n 's/^\([a-z0-9].*==.*\) \\$/\1/p' ./[!r]*.txt run.txt >"$copy/pins"
"$uv" pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate --all-extras \
    --group "$copy/pyproject.toml:build" --group "$copy/pyproject.toml:install" \
    --group "$copy/pyproject.toml:docs" --no-emit-package inorder \
    --output-file "$copy/pins" "${@:2}" "$copy/pyproject.toml"
{ echo '[tool.uv]'; echo 'constraint-dependencies = ['; sed 's/.*/"&",/' "$copy/pins"; echo ']'; } >>"$copy/pyproject.toml"
"$uv" lock --quiet --project "$copy"

# write NAME "INCLUDED LOCKS" OPTIONS
write() {
    {
        echo "# Made by: make lock"
        for lock in $2; do echo "-r $lock.txt"; done
        "$uv" export --quiet --frozen --project "$copy" --no-header --no-emit-local --no-default-groups "${@:3}" |
            awk 'NR == FNR { known[$0]; next } /^[a-z0-9]/ { new = !($0 in known) } new' \
                <(echo; for lock in $2; do cat "$lock.txt"; done) -
    } >"$copy/$1"
    mv "$copy/$1" "$1.txt"
}
write run "" --extra kafka --extra sinks --extra files --extra avro --extra protobuf
write spark run --extra spark
write build "" --only-group build --no-annotate
write uv "" --only-group install --no-annotate
write tests "run build" --extra dev --no-annotate
write docs "run build tests" --only-group docs --no-annotate
# In an environment of its own, since it needs other versions of what the tests need.
cp release.txt "$copy/release"
"$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
    --group "$copy/pyproject.toml:release" --output-file "$copy/release" "${@:2}"
{ echo "# Made by: make lock"; cat "$copy/release"; } >"$copy/written"
mv "$copy/written" release.txt
