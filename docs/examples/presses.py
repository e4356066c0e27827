"""Write a quarter of an hour of six presses, the input of docs/guides/spark.md's tutorial.

    python docs/examples/presses.py FILE

Each press reports every stroke (`force`) and each `jam`. It wears out within two to four minutes.
Its force rises a little, and it shakes its radio, so that more events are lost or late. Then it
jams, stops for ten seconds, and begins anew. Its clock is up to 300 ms wrong and up to 40 ppm too
fast. Every 20 s it asks the server for the time. All depends on a seed only.
"""

import json
import sys
from pathlib import Path
from random import Random

PRESSES = 6
MINUTES = 15
MS = 1_000_000
S = 1_000 * MS
START = 1_700_000_000 * S
STROKE_EVERY = S
SYNC_EVERY = 20 * S
STANDSTILL = 10 * S


def lines(seed=1):
    """Return events and rounds of time sync, in the order of arrival."""
    found = []
    for number in range(PRESSES):
        found += press(f"press-{number}", Random(seed * 1_000 + number))
    return [line for _, _, line in sorted(found, key=lambda each: each[:2])]


def press(name, rng):
    """(arrival, a number that settles ties, line) of each line of this press."""
    ahead, ppm = rng.uniform(-300, 300) * MS, rng.uniform(0, 40)
    said = iter(range(10**9))
    found = []

    def clock(at):
        return int(at + ahead + (at - START) * ppm / 1e6)

    def send(at, seq, kind, payload, wear):
        if seq and rng.random() < 0.002 + 0.12 * wear**4:
            return  # lost
        times = 2 if rng.random() < 0.005 else 1
        for _ in range(times):
            way = 5 * MS + rng.expovariate(1) * (20 + 1_500 * wear**4) * MS
            arrival = int(at + way)
            line = {"source": name, "seq": seq, "ts": clock(at), "arrival": arrival, "type": kind}
            found.append((arrival, next(said), line | {"payload": {"press": name, **payload}}))

    for at in range(START - 2 * SYNC_EVERY, START + MINUTES * 60 * S, SYNC_EVERY):
        there, back = (int(rng.uniform(0.2, 2) * MS) for _ in range(2))
        server = at + there
        line = {
            "clock": name,
            "t1": clock(at),
            "t2": server,
            "t3": server,
            "t4": clock(server + back),
        }
        found.append((server + back, next(said), line))

    at = START + int(rng.uniform(0, 1) * S)
    begun, life = at, rng.uniform(120, 240) * S
    seq = 0
    while at < START + MINUTES * 60 * S:
        wear = min(1.0, (at - begun) / life)
        if wear == 1.0:
            send(at, seq, "jam", {"force": round(rng.gauss(16, 1), 3)}, wear)
            at += STANDSTILL
            begun, life = at, rng.uniform(120, 240) * S
        else:
            force = 12 + 1.5 * wear**2 + rng.gauss(0, 0.6)
            send(at, seq, "stroke", {"force": round(force, 3)}, wear)
            at += STROKE_EVERY + int(rng.gauss(0, 20) * MS)
        seq += 1
    return found


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines()))
