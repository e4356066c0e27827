#!/usr/bin/env bash
# The steps that build the image; each can also be run outside of a container.
#   infra/image.sh dependencies HOME [EXTRAS]  installs infra/locks/run.txt into a virtual environment HOME;
#                                       pyarrow, 170 MB, only if EXTRAS is `files`
#   infra/image.sh build PYTHON FOLDER [WHEELS]  builds both wheels into FOLDER; INORDER_COMPILE=all compiles all of the
#                                       core. With WHEELS it takes the best ones for PYTHON from that folder instead
#   infra/image.sh install HOME FOLDER  installs these wheels into HOME, and removes pip from it
set -euo pipefail
cd "$(dirname "$0")/.."
pip=(-m pip --disable-pip-version-check --quiet)

case ${1:-} in
    dependencies)
        [[ -x $2/bin/python ]] || "${PYTHON:-python}" -m venv "$2"
        wanted=(sed '/^pyarrow==/,/# via/d')
        [[ ${3:-} != files ]] || wanted=(cat)
        "$2/bin/python" "${pip[@]}" install --no-cache-dir --require-hashes -r <("${wanted[@]}" infra/locks/run.txt)
        ;;
    build)
        if [[ -n ${4:-} ]]; then
            PIP_NO_INDEX=1 "$2" "${pip[@]}" download --no-deps -f "$4" --dest "$3" inorder inorder-engine
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
