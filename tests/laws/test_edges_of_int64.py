"""Laws: at the bounds of 64 bits nothing is lost, and the compiled core agrees with Python.

Timestamps, numbers, epochs, and declared clock errors lie around 0, ±2^53, ±2^62 and ±2^63, among
ordinary events. Each accepted event has exactly one outcome. A value beyond 64 bits makes a dead
letter, whose report names the field, the value and the remedy.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

import topology.base.event
from inorder.contract import MAX_EPOCH, MAX_INT64, MIN_INT64, HeaderContract
from tests.kit.outputs import Outputs
from tests.seeds import seeds_of_today
from topology.base.event import DATA, Event
from topology.base.outcome import Malformed, Step
from topology.base.sample import Declared, Sample
from topology.config import parse
from topology.records.header_reader import HeaderReader
from topology.records.json_lines import encode_line, make_step_lines
from topology.records.line_reader import Content, LineReader, Row
from topology.stage.replay import Replay

ROOT: Final = Path(__file__).parents[2]
SEEDS: Final = seeds_of_today(10)
LINES: Final = 300
MS: Final = 1_000_000
BEGIN_NS: Final = 1_700_000_000_000_000_000
EDGES: Final = (0, 2**31, 2**53, -(2**53), 2**62, -(2**62), 2**63, -(2**63))
FILES: Final = (
    "streams: {default: {reorder: {rule: fixed, max_wait: 20ms}}}\n",
    "streams: {default: {reorder: {late: side}, clock: {unsynced: estimate}}}\n",
    "streams: {default: {reorder: {max_jump: 9223372036854775807, start: zero}}}\n",
)

PYTHON_ALONE: Final = """
import sys
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
finder = FileFinder.path_hook((SourceFileLoader, SOURCE_SUFFIXES))
def ours(path):
    if not path.startswith(sys.argv[1] + "/topology"):
        raise ImportError
    return finder(path)
sys.path_hooks.insert(0, ours)
sys.path_importer_cache.clear()
import topology.base.event
assert topology.base.event.__file__.endswith(".py")
from tests.laws.test_edges_of_int64 import answers
for seed in sys.argv[2:]:
    sys.stdout.write("".join(answers(int(seed))))
"""
"""A program that prints the answers for these seeds, always with the Python sources."""


def edge(rng: Random) -> int:
    return rng.choice(EDGES) + rng.choice((-1, 0, 1))


def rows(seed: int) -> Iterator[Row]:
    rng = Random(seed)
    numbers = {f"s{n}": 0 for n in range(4)}
    for line in range(1, LINES + 1):
        arrival_ns = BEGIN_NS + line * MS
        source = rng.choice(list(numbers))
        values: dict[str, Any] = {"source": source, "seq": numbers[source], "arrival": arrival_ns}
        values["ts"] = arrival_ns - rng.randrange(9) * MS
        numbers[source] += rng.choice((1, 1, 1, 2))
        if rng.random() < 0.3:
            values[rng.choice(("seq", "ts", "epoch"))] = edge(rng)
        if rng.random() < 0.1:
            values = {"clock": source, "at": arrival_ns, "offset": edge(rng)}
            values["error"] = rng.choice((edge(rng), 0, MS))
        yield Row(line, values)


def ends(seed: int, file: str) -> tuple[list[Content], list[Step]]:
    """Return the contents of the lines, and the steps of their replay."""
    reader, replay = LineReader(), Replay(parse(file))
    contents = [reader.read(row) for row in rows(seed)]
    steps = [replay.on_inputs(contents[at : at + 7]) for at in range(0, LINES, 7)]
    return contents, [step for step in (*steps, replay.on_end()) if step is not None]


def of_headers(seed: int) -> Iterator[tuple[dict[str, int], Event | Malformed]]:
    """Yield values, and the content that the header reader makes of them."""
    rng, contract = Random(seed), HeaderContract()
    reader, names = HeaderReader(contract), contract.names()
    for offset in range(LINES):
        values = {name: edge(rng) for name in ("seq", "ts", "epoch") if rng.random() < 0.6}
        values.setdefault("seq", 7)
        headers: list[tuple[str, bytes | None]] = [(names.source, b"a")]
        headers += [(getattr(names, name), b"%d" % number) for name, number in values.items()]
        yield values, reader.read(headers, BEGIN_NS, BEGIN_NS, offset, None, None)


def answers(seed: int) -> Iterator[str]:
    for file in FILES:
        for step in ends(seed, file)[1]:
            yield from (f"{encode_line(line).decode()}\n" for line in make_step_lines(step))
    for _, found in of_headers(seed):
        detail = found.detail if isinstance(found, Malformed) else ""
        yield f"{found!r} {detail}\n"


@pytest.mark.parametrize("file", FILES)
def test_each_event_has_one_outcome(file: str) -> None:
    for seed in SEEDS:
        contents, steps = ends(seed, file)
        told = Outputs()
        for step in steps:
            told.add(step)
        events = [each for each in contents if not isinstance(each, Sample | Declared)]
        released = sum(event.kind == DATA for event in told.released)
        reported = sum(report[1] != "gap" for report in told.reports)
        assert released + reported == len(events), seed
        assert all(MIN_INT64 <= event.ref_time_ns <= MAX_INT64 for event in told.released), seed


def test_larger_values_are_dead_letters() -> None:
    within = {"seq": (0, MAX_INT64), "ts": (-MAX_INT64, MAX_INT64), "epoch": (0, MAX_EPOCH)}
    for seed in SEEDS:
        taken = [(row.values, LineReader().read(row)) for row in rows(seed)]
        read: list[tuple[Any, Content]] = [*taken, *of_headers(seed)]
        for values, found in read:
            if "clock" in values:
                continue
            wrong = [
                name
                for name, (low, high) in within.items()
                if name in values and not low <= values[name] <= high
            ]
            assert isinstance(found, Malformed) == bool(wrong), values
            if isinstance(found, Malformed):
                named = found.detail.lower()
                assert all(name in named for name in wrong), found.detail
                assert "write" in found.detail


@pytest.mark.skipif(
    topology.base.event.__file__.endswith(".py"), reason="the core is not compiled here"
)
def test_compiled_core_matches_python() -> None:
    command = [sys.executable, "-c", PYTHON_ALONE, str(ROOT), *map(str, SEEDS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "".join("".join(answers(seed)) for seed in SEEDS)
