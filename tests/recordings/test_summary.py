"""Law: a replay's balance holds for any lines.

Examples: waits from several processes are combined, exactly or thinned.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import orjson
import pytest

from recordings.audit.quantiles import quantiles_ms
from recordings.lines import read_lines
from recordings.replayed import replay_lines
from recordings.summary import BALANCE, Summary
from recordings.waits import Waits
from topology.config import parse

TOPOLOGY = "streams: {default: {reorder: {max_jump: 50, late: %s}}}"
HOUR_NS = 3_600_000_000_000


def lines(seed: int) -> list[bytes]:
    """Return events and control lines; there are lines with each kind of fault."""
    rng = Random(seed)
    made = []
    for seq in range(120):
        line: dict[str, object] = {"source": rng.choice("ab"), "seq": seq // 2, "ts": seq * 10**6}
        dice = rng.random()
        if dice < 0.15:
            line["kind"] = rng.choice(("heartbeat", "bye"))
        if rng.random() < 0.1:
            line["ts"] = seq * 10**6 + 2 * HOUR_NS
            line["arrival"] = seq * 10**6
        elif rng.random() < 0.1:
            line["seq"] = 10_000_000 + seq
        elif rng.random() < 0.1:
            line["stream"] = "elsewhere"
        elif rng.random() < 0.1:
            line["seq"] = "seventeen"
        made.append(orjson.dumps(line))
        if rng.random() < 0.05:
            made.append(b"{")
        if rng.random() < 0.05:
            made.append(b'{"clock": "a", "at": 5, "offset": 3, "error": 1}')
    rng.shuffle(made)
    return made


@pytest.mark.parametrize("to_end", [True, False])
@pytest.mark.parametrize("late", ["pass", "drop", "side"])
@pytest.mark.parametrize("seed", range(8))
def test_input_is_sum_of_outcomes(tmp_path: Path, seed: int, late: str, to_end: bool) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"\n".join(lines(seed)) + b"\n")
    summary = Summary()
    for _ in replay_lines(parse(TOPOLOGY % late), read_lines(str(path)), summary, to_end):
        pass
    document = summary.document()
    assert document["in"] == sum(document[name] for name in BALANCE)
    for source, counts in document["sources"].items():
        assert counts["in"] == sum(counts[name] for name in BALANCE), source
    whole = path.read_bytes().count(b"\n")
    assert document["in"] + document["control"] + document["clock"] == whole


MS = 1_000_000


def waits(each_ms: list[int]) -> Waits:
    found = Waits()
    found.each_ns.extend(ms * MS for ms in each_ms)
    return found


@pytest.mark.parametrize(
    ("count", "p99_ms"), [(1, 7.0), (6, 7.0), (99, 7.0), (100, 0.0), (200, 0.0)]
)
def test_p99_has_the_nearest_rank(count: int, p99_ms: float) -> None:
    """One of so many events waited; an audit has the same rank."""
    one = waits([7, *[0] * (count - 1)])
    assert one.in_ms()["p99"] == p99_ms == quantiles_ms(one.each_ns)["p99"]


def test_no_waits_are_zero() -> None:
    assert Waits().in_ms() == {"mean": 0.0, "p50": 0.0, "p99": 0.0, "max": 0.0}


def test_few_waits_stay_exact() -> None:
    rng = Random(1)
    each_ms = [rng.randrange(1_000) for _ in range(999)]
    together = Waits()
    for part in (each_ms[:10], each_ms[10:500], each_ms[500:], []):
        thinned = waits(part)
        thinned.thin()
        together.join(thinned)
    assert together.in_ms() == waits(each_ms).in_ms()


def test_thinned_waits_stay_close() -> None:
    each_ms = list(range(10_000))
    thinned = waits(each_ms)
    thinned.thin(100)
    exact, found = waits(each_ms).in_ms(), thinned.in_ms()
    assert (found["mean"], found["max"]) == (exact["mean"], exact["max"])
    assert abs(found["p50"] - exact["p50"]) <= 100
    assert abs(found["p99"] - exact["p99"]) <= 100
