"""Examples: `inorder produce --as-now` shifts a recording's times and keeps the intervals between
them.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from cli.kafka.as_now import LONGEST_STEP_NS, STEP_NS, Extent, move, shift_of, step_of
from inorder.playback import OVER, PLAYBACK, decode
from producers.replayer import ReplayPace
from tests.cli.invoking import inorder, json_lines, text_file
from tests.inorder.records import Topic, headers_of
from topology.config import parse

S = 1_000_000_000
MS = 1_000_000
TOPOLOGY = """\
streams:
  default:
    input: {raw}
    fields: {{source: payload.id, seq: payload.n, ts: payload.at, arrival: payload.came}}
    ts_unit: ms
"""
ROWS = [
    "a,0,1700000000000,2023-11-14T22:13:21+00:00",
    "b,0,1700000001500,2023-11-14T22:13:23+00:00",
]


@pytest.mark.parametrize(
    ("given", "unit_ns", "wanted"),
    [
        (1_700_000_000_000, MS, 1_700_000_060_000),
        (1_700_000_000.25, S, 1_700_000_060.25),
        ("2023-11-14 23:13:20+01:00", MS, "2023-11-14T22:14:20.000000000Z"),
        ("1700000000000", MS, "2023-11-14T22:14:20.000000000Z"),
    ],
)
def test_time_moves_in_its_own_unit(given: object, unit_ns: int, wanted: object) -> None:
    assert move(given, 1_700_000_000 * S, 60 * S, unit_ns) == wanted


@pytest.mark.parametrize(
    ("pace", "after_s"),
    [
        (ReplayPace(), 0),
        (ReplayPace(speed=20), 5),
        (ReplayPace(speed=1), 100),
        (ReplayPace(speed=0.5), 100),
        (ReplayPace(rate_per_s=10), 1),
    ],
)
def test_last_record_is_shifted_to_now(pace: ReplayPace, after_s: int) -> None:
    extent = Extent(first_ns=0, last_ns=100 * S, events=10)
    now_ns = 1_000_000 * S
    assert shift_of(extent, now_ns, pace, 1) == now_ns + (after_s - 100) * S
    cut_ns = shift_of(extent, now_ns, pace, STEP_NS)
    assert cut_ns % STEP_NS == 0
    assert 0 <= now_ns + (after_s - 100) * S - cut_ns < STEP_NS


@pytest.mark.parametrize(
    ("windows", "step_s"),
    [
        (["tumbling 10s"], 60),
        (["tumbling 5min", "sliding 10min every 4min"], 1200),
        (["session 7s", "count 7"], 60),
        (["tumbling 7d"], 60),
    ],
)
def test_shift_step_follows_the_windows(windows: list[str], step_s: int) -> None:
    queries = "".join(
        f"  q{n}: {{window: {window}, aggregate: {{n: count()}}}}\n"
        for n, window in enumerate(windows)
    )
    assert step_of(parse(f"streams: {{default: {{}}}}\nqueries:\n{queries}")) == step_s * S
    assert step_of(None) == STEP_NS < LONGEST_STEP_NS


def test_mapped_rows_are_shifted(raw: Topic, tmp_path: Path) -> None:
    rows = text_file(tmp_path / "t.csv", "\n".join(["id,n,at,came", *ROWS, ""]))
    topology = text_file(tmp_path / "t.yaml", TOPOLOGY.format(raw=raw.name))
    inorder("produce", *raw.words, "--topology", topology, "--as-now", rows).well("shifted by")
    sent = {json.loads(each.value() or b"")["id"]: each for each in raw.messages(2)}
    values = {name: json.loads(each.value() or b"") for name, each in sent.items()}
    by_ms = values["a"]["at"] - 1_700_000_000_000
    assert by_ms % 60_000 == 0
    assert values["b"]["at"] - values["a"]["at"] == 1_500
    arrivals_ms = [sent[name].timestamp()[1] for name in "ab"]
    assert arrivals_ms == [1_700_000_001_000 + by_ms, 1_700_000_003_000 + by_ms]
    assert 0 <= time.time() - arrivals_ms[1] / 1e3 < 120
    until = {name: decode(dict(headers_of(each))[PLAYBACK]) for name, each in sent.items()}
    assert until["a"] > time.time() * 1e3
    assert until["b"] == OVER
    assert values["b"]["came"].endswith(":23.000000000Z")


def test_json_lines_are_shifted(raw: Topic, tmp_path: Path) -> None:
    lines = [{"source": "a", "seq": n, "ts": n * S, "arrival": (n + 5) * S} for n in (0, 1)]
    path = json_lines(
        tmp_path / "e.jsonl", [*lines, {"clock": "a", "t1": 0, "t2": 1, "t3": 1, "t4": 2}]
    )
    summary = inorder("produce", *raw.words, "--as-now", "--json", path).well().summary
    assert (summary["published"], summary["clock"]) == (2, 1)
    (first, second), messages = raw.events(2), raw.messages(2)
    assert second.ts_ns - first.ts_ns == S
    assert messages[1].timestamp()[1] * MS - second.ts_ns == 5 * S


def test_standard_input_is_refused(raw: Topic) -> None:
    inorder("produce", *raw.words, "--as-now").refused("--as-now reads EVENTS twice")
