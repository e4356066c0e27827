#!/usr/bin/env bash
# Runs the property tests of the codec with new seeds again and again. The build stops at the first
# access out of bounds, and at undefined behaviour of C.
#   usage: infra/codec_fuzz.sh PYTHON [SECONDS [FIRST SEED]]     (default: 600, from 0)
# The build is in a copy (build/codec_fuzz), outside of the working tree. Each object of Python is
# allocated separately (PYTHONMALLOC), so that the sanitizer knows where it ends.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(realpath --no-symlinks "$1")
seconds=${2:-600}
first=${3:-0}
seeds=25
copy=build/codec_fuzz

rm -rf "$copy"
mkdir -p "$copy"
git ls-files -z --cached --others --exclude-standard -- '*.py' '*.pyi' '*.pyx' '*.pxd' '*.lark' pyproject.toml |
    while IFS= read -r -d '' file; do [[ ! -f $file ]] || printf '%s\0' "$file"; done |
    sort -zu | tar --create --null --files-from=- | tar --extract --directory="$copy"
cd "$copy"

CFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g" \
    "$python" setup.py --quiet build_ext --inplace
LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)"
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 PYTHONMALLOC=malloc INORDER_CODEC=native

end=$((SECONDS + seconds))
runs=0
while ((SECONDS < end)); do
    LD_PRELOAD="$LD_PRELOAD" INORDER_CODEC_FIRST_SEED=$first INORDER_CODEC_SEEDS=$seeds \
        "$python" -m pytest -q -x -p no:cacheprovider --timeout 600 \
        tests/codec/test_{reading,hostile,events,writing,compression}.py >fuzz.log 2>&1 || {
        tail -n 80 fuzz.log
        echo "seeds from $first: an access out of bounds, or the two codecs differ" >&2
        exit 1
    }
    first=$((first + seeds))
    runs=$((runs + 1))
done
echo "codec: no fault in $((runs * seeds)) seeds of each test; the next seed is $first"
