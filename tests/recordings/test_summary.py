"""Law: the balance of a replay holds, whatever the lines are."""

from __future__ import annotations

from pathlib import Path
from random import Random

import orjson
import pytest

from recordings.lines import read_lines
from recordings.replayed import replayed
from recordings.summary import BALANCE, Summary
from topology.config import parse

TOPOLOGY = "streams: {default: {reorder: {max_jump: 50, late: %s}}}"
HOUR_NS = 3_600_000_000_000


def lines(seed: int) -> list[bytes]:
    """Events and control lines with every fault in some of them."""
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
def test_in_is_the_sum_of_what_became_of_it(
    tmp_path: Path, seed: int, late: str, to_end: bool
) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"\n".join(lines(seed)) + b"\n")
    summary = Summary()
    for _ in replayed(parse(TOPOLOGY % late), read_lines(str(path)), summary, to_end):
        pass
    document = summary.document()
    assert document["in"] == sum(document[name] for name in BALANCE)
    for source, counts in document["sources"].items():
        assert counts["in"] == sum(counts[name] for name in BALANCE), source
    whole = path.read_bytes().count(b"\n")
    assert document["in"] + document["control"] + document["clock"] == whole
