"""Print the memory and CPU that sources need: `python docs/examples/size.py SOURCES [SECONDS]`.

Each source sends one event a second. It takes 100 ms on average; one in a hundred takes 2 s longer.
"""

import sys
import time
from pathlib import Path
from random import Random

from inorder.engine import Ordering

BEGIN, SECOND = 1_700_000_000_000_000_000, 1_000_000_000
TOPOLOGY = "streams: {default: {clock: {unsynced: trust}}}"


def batches(sources, seconds):
    rng, coming = Random(1), []
    for seq in range(seconds):
        for source in range(sources):
            ts = BEGIN + seq * SECOND + rng.randrange(SECOND)
            took = rng.expovariate(10) + 2 * (rng.random() < 0.01)
            coming.append((ts + int(took * SECOND), f"press-{source}", seq, ts))
        coming.sort(reverse=True)
        while coming and coming[-1][0] < BEGIN + (seq + 1) * SECOND:
            few = [coming.pop() for _ in range(min(100, len(coming)))]
            yield [{"source": s, "seq": n, "ts": ts, "arrival": at} for at, s, n, ts in few]


def memory():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def main(sources, seconds=60):
    unfed = max(memory() for _ in batches(sources, seconds))
    ordering, cpu_s, fed = Ordering(TOPOLOGY, events=False), 0.0, 0
    for batch in batches(sources, seconds):
        began = time.process_time()
        ordering.feed(*batch)
        cpu_s, fed = cpu_s + time.process_time() - began, max(fed, memory())
    sent, held = ordering.balance().sent, ordering.balance().held
    print(f"{(fed - unfed) / 1e6:.1f} MB, {1e6 * cpu_s / sent:.1f} us an event, {held} buffered")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
