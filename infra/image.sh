#!/usr/bin/env bash
# The steps that build the image; each can also be run outside of a container.
#   infra/image.sh locked [EXTRAS]      prints the part of infra/locks/run.txt that the image has: pyarrow, 170 MB,
#                                       only if EXTRAS is `files`
#   infra/image.sh dependencies HOME [EXTRAS]  installs that part into a virtual environment HOME
#   infra/image.sh build PYTHON FOLDER [WHEELS]  builds both wheels into FOLDER; INORDER_COMPILE=all compiles all of the
#                                       core. With WHEELS it takes those of this version for PYTHON from that folder
#                                       instead; if all is to be compiled, a pure one of inorder-engine is refused
#   infra/image.sh install HOME FOLDER  installs these wheels into HOME, and removes pip from it
set -euo pipefail
cd "$(dirname "$0")/.."
pip=(-m pip --disable-pip-version-check --quiet)

locked() {
    local wanted=(sed '/^pyarrow==/,/# via/d')
    [[ ${1:-} != files ]] || wanted=(cat)
    "${wanted[@]}" infra/locks/run.txt
}

case ${1:-} in
    locked)
        locked "${2:-}"
        ;;
    dependencies)
        [[ -x $2/bin/python ]] || "${PYTHON:-python}" -m venv "$2"
        "$2/bin/python" "${pip[@]}" install --no-cache-dir --require-hashes -r <(locked "${3:-}")
        ;;
    build)
        if [[ -n ${4:-} ]]; then
            version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' inorder/__init__.py)
            PIP_NO_INDEX=1 "$2" "${pip[@]}" download --no-deps -f "$4" --dest "$3" \
                "inorder==$version" "inorder-engine==$version"
            if [[ ${INORDER_COMPILE:-} == all ]] && compgen -G "$3/inorder_engine-*-none-any.whl" >/dev/null; then
                echo "$4 has no compiled wheel of inorder-engine $version for $("$2" --version);" \
                    "make one with infra/compiled_wheels.sh, or build without WHEELS" >&2
                exit 1
            fi
            exit
        fi
        "$2" "${pip[@]}" wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir "$3" ./inorder .
        ;;
    install)
        "$2/bin/python" "${pip[@]}" install --no-cache-dir --no-deps "$3"/*.whl
        "$2/bin/python" "${pip[@]}" uninstall --yes pip
        ;;
    *)
        grep '^#  ' "$0" >&2
        exit 2
        ;;
esac
