#!/usr/bin/env bash
# A release: the version of pyproject.toml, as a commit's tag, when everything says so.
#   usage: infra/release.sh [--dry-run]
# It tags, and pushes and uploads nothing: who may do that does it.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "no release: $*" >&2; exit 1; }

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "pyproject.toml has no version like 1.2.3"
for other in "inorder/pyproject.toml:^version = \"$version\"$" \
    "inorder/__init__.py:^__version__ = \"$version\"$" "pyproject.toml:\"inorder==$version\""; do
    grep --quiet "${other#*:}" "${other%%:*}" || fail "${other%%:*} is of another version than $version"
done
[[ -z $(git status --porcelain) ]] || fail "commit or stash first: the tree is not clean"
[[ $(git branch --show-current) == main ]] || fail "releases are made from main"
! git rev-parse --quiet --verify "refs/tags/v$version" >/dev/null || fail "v$version is there already"
grep --quiet "^## \[$version\] - [0-9-]*$" CHANGELOG.md ||
    fail "CHANGELOG.md has no heading '## [$version] - YYYY-MM-DD': move what is unreleased below it"
sections=$(sed -n "/^## \[Unreleased\]/,/^## \[$version\]/p" CHANGELOG.md | grep --count '^- ' || true)
[[ $sections == 0 ]] || fail "CHANGELOG.md has $sections unreleased entries above $version"

[[ ${1:-} != --dry-run ]] || { echo "v$version could be released"; exit 0; }
make test
make wheels
make sbom
git tag --annotate "v$version" --message "inorder $version"
echo "tagged v$version, wheels and the list of parts are in dist/; push it with: git push origin v$version"
