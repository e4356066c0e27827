#!/usr/bin/env bash
# Builds all parts of a release into dist/ and tries them: wheels, chart, site, image, bill of materials. It
# publishes nothing: a tag does, by .github/workflows/ci.yml, which runs this script too.
#   usage: infra/release.sh PYTHON VERSION [WHEELS]
# PYTHON has the packages of `make docs`. VERSION is that of inorder/__init__.py, where it stands once. WHEELS is a
# folder with compiled wheels of this version; without it they are built here, for each Python of this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(realpath --no-symlinks "$1") version=${2:-} wheels=${3:-}
[[ -z $wheels ]] || wheels=$(realpath "$wheels")

fail() { echo "no release: $*" >&2; exit 1; }

step() {
    local name=$1 began=$SECONDS
    shift
    echo "== $name"
    "$@"
    times+=("$(printf '%5d s  %s' $((SECONDS - began)) "$name")")
}

check() {
    local found
    found=$("$python" -c 'import inorder; print(inorder.__version__)')
    [[ -n $version ]] || fail "say which: make release VERSION=$found"
    [[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "$version is not a version like 1.2.3"
    [[ $version == "$found" ]] || fail "inorder/__init__.py has version $found; set it to $version, and commit"
    [[ -z $(git status --porcelain) ]] || fail "the tree is not clean; commit or stash first"
    grep --quiet "^## \[$version\] - [0-9-]*$" CHANGELOG.md ||
        fail "CHANGELOG.md has no heading '## [$version] - YYYY-MM-DD'; move the unreleased entries below it"
    [[ $(notes Unreleased | grep --count '^- ') == 0 ]] || fail "CHANGELOG.md has unreleased entries"
    ! git rev-parse --quiet --verify "refs/tags/v$version^{commit}" >/dev/null ||
        [[ $(git rev-parse "v$version^{commit}") == $(git rev-parse HEAD) ]] ||
        fail "v$version is another commit already"
    # What a later step lacks is told now.
    programs=$("$python" -m infra.pythons)
    [[ -n $programs ]] || fail "no CPython 3.11 to 3.14 was found"
    local reason
    reason=$("$python" -c 'from infra import helm; print(helm.missing() or "")')
    [[ -z $reason ]] || fail "no chart: $reason"
    if ! docker info >/dev/null 2>&1; then
        reason=$("$python" -c 'from infra.containers import product_image; print(product_image.missing() or "")')
        [[ -z $reason ]] || fail "no image: start Docker ($reason)"
    fi
}

# notes HEADING: that part of the changelog
notes() { sed -n "/^## \[$1\]/,/^## \[/{/^## \[/!p}" CHANGELOG.md; }

build_wheels() {
    local program home tag
    rm -rf dist
    mkdir -p dist/assets
    if [[ -n $wheels ]]; then
        infra/wheels.sh "$python" dist
        cp "$wheels"/inorder_engine-"$version"-cp*.whl dist/
        for program in $programs; do
            tag=$("$program" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
            compgen -G "dist/inorder_engine-$version-$tag-*_$(uname -m).whl" >/dev/null ||
                fail "$wheels has no wheel of $version for $tag and $(uname -m)"
        done
        return
    fi
    for program in $programs; do
        home=build/release/$("$program" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        "$uv" venv --quiet --clear --seed --python "$program" "$home"
        "$uv" pip install --quiet --python "$home" --require-hashes -r infra/locks/build.txt
        infra/wheels.sh "$home/bin/python" dist compiled
    done
}

check_wheels() {
    "$uv" venv --quiet --clear --python "$python" build/release/twine
    "$uv" pip install --quiet --python build/release/twine --require-hashes -r infra/locks/release.txt
    build/release/twine/bin/twine check --strict dist/*.whl dist/*.tar.gz
}

build_image() {
    if docker info >/dev/null 2>&1; then
        docker build --build-arg WHEELS=dist --build-arg "VERSION=$version" \
            --build-arg "REVISION=$(git rev-parse HEAD)" --tag "inorder:$version" .
        docker run --rm "inorder:$version" --version
    else
        "$python" -m infra.containers.product_image
    fi
}

build_chart() {
    "$("$python" -c 'from infra.helm import find_program; print(find_program())')" package infra/helm/inorder \
        --version "$version" --app-version "$version" --destination dist/assets
}

build_site() {
    make docs
    tar --create --gzip --file "dist/assets/inorder-site-$version.tar.gz" --directory build site
}

write_lists() {
    "$python" -m infra.sbom dist/assets/inorder-engine.cdx.json infra/locks/run.txt
    infra/image.sh locked >build/release/image.txt
    "$python" -m infra.sbom dist/assets/inorder-image.cdx.json build/release/image.txt
    "$python" -m infra.sbom dist/assets/inorder-engine-spark.cdx.json infra/locks/run.txt infra/locks/spark.txt
    notes "$version" | infra/absolute_links.sh "$version" >dist/assets/notes.md
    { cat CITATION.cff; sed -n "s/^## \[\($version\)\] - \(.*\)$/version: \1\ndate-released: \2/p" CHANGELOG.md; } \
        >dist/assets/CITATION.cff
    # Without folders, as people download them.
    find dist -type f ! -name SHA256SUMS -exec sha256sum {} + | sed -E 's#  .*/#  #' | sort -k 2 >dist/assets/SHA256SUMS
}

uv=$(dirname "$python")/uv
times=()
check
step "wheels and archives of the sources" build_wheels
step "twine check" check_wheels
step "the README, by each wheel on each Python" "$python" -m infra.try_wheels dist
step "chart" build_chart
step "site" build_site
step "image" build_image
step "bill of materials, notes, sums" write_lists
printf '%s\n' "${times[@]}"
echo "dist/ has inorder $version; to publish it: git tag --annotate v$version --message 'inorder $version' && git push origin v$version"
