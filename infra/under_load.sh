#!/usr/bin/env bash
# Runs tests repeatedly with two busy loops for each core, to find tests that depend on time.
#   usage: infra/under_load.sh PYTHON TIMES [pytest arguments]
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1 times=$2
shift 2
loops=()
trap 'kill "${loops[@]}" 2>/dev/null || true' EXIT
for ((loop = 2 * $(nproc); loop > 0; loop--)); do
    while :; do :; done &
    loops+=($!)
done
failed=0
for ((run = 1; run <= times; run++)); do
    echo "run $run of $times, load $(cut -d ' ' -f 1 /proc/loadavg)"
    "$python" -m pytest -n 0 --quiet -p no:cacheprovider "$@" || failed=$((failed + 1))
done
echo "$failed of $times runs failed"
((failed == 0))
