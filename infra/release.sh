#!/usr/bin/env bash
# Makes a release: tags the commit with the version of pyproject.toml if all checks pass.
#   usage: infra/release.sh [--dry-run]
# It pushes and uploads nothing; a person with the rights does that.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "no release: $*" >&2; exit 1; }

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "pyproject.toml has no version like 1.2.3"
for other in "inorder/pyproject.toml:^version = \"$version\"$" \
    "inorder/__init__.py:^__version__ = \"$version\"$" "pyproject.toml:\"inorder==$version\""; do
    grep --quiet "${other#*:}" "${other%%:*}" || fail "${other%%:*} has another version than $version"
done
[[ -z $(git status --porcelain) ]] || fail "commit or stash first: the tree is not clean"
[[ $(git branch --show-current) == main ]] || fail "releases are made from main"
! git rev-parse --quiet --verify "refs/tags/v$version" >/dev/null || fail "v$version already exists"
grep --quiet "^## \[$version\] - [0-9-]*$" CHANGELOG.md ||
    fail "CHANGELOG.md has no heading '## [$version] - YYYY-MM-DD': move the unreleased entries below it"
sections=$(sed -n "/^## \[Unreleased\]/,/^## \[$version\]/p" CHANGELOG.md | grep --count '^- ' || true)
[[ $sections == 0 ]] || fail "CHANGELOG.md has $sections unreleased entries above $version"

[[ ${1:-} != --dry-run ]] || { echo "v$version could be released"; exit 0; }
make test-all
make wheels
make sbom
git tag --annotate "v$version" --message "inorder $version"
echo "tagged v$version, the wheels and the bill of materials are in dist/; push the tag with: git push origin v$version"
