"""Law: a replay can fold clock reports into its state at any save, and its output stays the same.
Sources come late, are forgotten and return, and two streams know some of them with other clock
settings. Examples: the stored reports of known and of unknown sources.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest

from tests.kit.topologies import in_code
from topology.base.event import NO_EPOCH, Event
from topology.base.outcome import Step
from topology.base.sample import Declared, Sample
from topology.config import Topology, parse
from topology.order.clock.drift_table import KEPT, DriftTable
from topology.stage.replay import Replay
from topology.stage.stage import Stage

MS = 1_000_000
S = 1_000 * MS
BEGIN = 1_700_000_000 * S
SOURCES = "abcde"
ROUND_MS = 400
LASTS_MS = 64_000
BATCH = 30

Taken = Event | Sample | Declared


def topology_of(seed: int) -> Topology:
    random = Random(seed)
    return in_code(f"""
streams:
  one:
    clock: {{sync: udp, unsynced: {random.choice(("estimate", "trust", "reject"))}}}
    reorder: {{max_sources: {random.choice((2, 3))}, forget_after: 9s}}
  two:
    clock: {{sync: udp, unsynced: estimate, activation: 3s, sync_window: 40s, servers: 2}}
    reorder: {{rule: fixed, max_wait: 9s, forget_after: 20s}}
queries:
  met: {{join: interval 1s, sides: {{x: {{stream: one}}, y: {{stream: two}}}}}}
""")


def contents_of(seed: int) -> list[Taken]:
    """Return events and clock reports of sources that are idle for long.

    Each clock continues meanwhile, jumps at times, and is asked by two servers.
    """
    random = Random(seed)
    found: list[Taken] = []
    for source in SOURCES:
        offset_ns, segment, seqs = random.randrange(-S, S), 0, Counter[str]()
        speaks, turns_ms = random.random() < 0.3, random.randrange(4_000, 30_000)
        for at_ms in range(0, LASTS_MS, ROUND_MS):
            now_ns = BEGIN + at_ms * MS + random.randrange(ROUND_MS * MS)
            if random.random() < 0.02:
                offset_ns += random.choice((-1, 1)) * random.randrange(S)
                segment += random.random() < 0.5
            there, back = (int(random.expovariate(1 / (2 * MS))) for _ in "tb")
            t2_ns = now_ns + there
            t1_ns, t4_ns = now_ns - offset_ns, t2_ns + back - offset_ns
            server = random.choice("AAB")
            found.append(
                Sample(source, t1_ns, t2_ns, t2_ns, t4_ns, t2_ns + back, at_ms, server, segment)
            )
            if random.random() < 0.01:
                found.append(Declared(source, now_ns, None, 0, now_ns + MS, at_ms))
            if at_ms > turns_ms:
                speaks, turns_ms = not speaks, at_ms + random.randrange(4_000, 30_000)
            for _ in range(random.randrange(3) * speaks):
                stream = random.choice(("one", "one", "two"))
                seqs[stream] += random.random() > 0.1
                ts_ns = now_ns - offset_ns + random.randrange(ROUND_MS * MS)
                arrival_ns = ts_ns + offset_ns + int(random.expovariate(1 / (200 * MS)))
                found.append(event(stream, source, seqs[stream], ts_ns, arrival_ns))
                seqs[stream] += 1
    found.sort(key=lambda each: each.arrival_ns)
    for number, each in enumerate(found):
        each.offset = number
    return found


def event(stream: str, source: str, seq: int, ts_ns: int, arrival_ns: int) -> Event:
    return Event(stream, source, NO_EPOCH, seq, ts_ns, arrival_ns, type="T")


def run_without_forgetting(topology: Topology, contents: Sequence[Taken]) -> tuple[list[Any], int]:
    """Run a single stage whose table forgets nothing; return its output and how often CLOCK forgot
    a source.
    """
    table = DriftTable()
    stage = Stage(topology, topology.operators, table=table)
    emitted: list[Any] = []
    for inputs in cut(contents):
        for each in inputs:
            if isinstance(each, Sample | Declared):
                table.add(each)
        taken = [each for each in inputs if not isinstance(each, Sample | Declared)]
        if taken:
            now_ns = taken[-1].at_ns
            emitted += lines(stage.on_batch(taken, now_ns))
    forgotten = sum(stage.figures_of(name)["clock_forgotten"] for name in topology.streams)
    return emitted + lines(stage.on_end(now_ns)), forgotten


def cut(contents: Sequence[Taken]) -> Iterator[Sequence[Taken]]:
    for at in range(0, len(contents), BATCH):
        yield contents[at : at + BATCH]


def lines(step: Step) -> list[Any]:
    stamped = [
        (e.at_ns, e.stream, e.source, e.seq, e.ref_time_ns, e.error_ns, e.segment, e.late)
        for e in step.released
    ]
    return [*stamped, *map(str, step.reports), *map(str, step.results)]


@pytest.mark.in_turns(2)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_folding_changes_no_output(seed: int) -> None:
    topology = topology_of(seed)
    random = Random(seed)
    replay, emitted, least = Replay(topology), list[Any](), Counter[str]()
    for inputs in cut(contents_of(seed)):
        step = replay.on_inputs(inputs)
        emitted += [] if step is None else lines(step)
        if random.random() < 0.05 and (saved := replay.save()) is not None:
            least.update(key.partition("/")[0] for key in saved.state if "/folded/" in key)
            replay = Replay(topology)
            replay.restore(saved)
    last: Any = replay.on_end()
    whole, forgotten = run_without_forgetting(topology, contents_of(seed))
    assert [*emitted, *lines(last)] == whole
    assert least.keys() == {"one\nclock", "two\nclock"}
    assert forgotten


def rounds(source: str, begin_ns: int, number: int, every_ns: int) -> list[Taken]:
    times = range(begin_ns, begin_ns + number * every_ns, every_ns)
    return [Sample(source, ns, ns, ns, ns, ns, ns - BEGIN) for ns in times]


def count_rounds(text: str, *contents: Taken) -> Counter[str]:
    """Return the number of stored rounds of each source."""
    replay: Any = Replay(in_code(text))
    replay.on_inputs(sorted(contents, key=lambda each: each.arrival_ns))
    return Counter(word.source for word in replay.save().words)


def test_used_reports_are_dropped() -> None:
    heard = [*rounds("a", BEGIN, 200, S), *rounds("b", BEGIN, 200, S), *rounds("c", BEGIN, 200, S)]
    a = [event("default", "a", n, ns, ns) for n, ns in enumerate((BEGIN + 9 * S, BEGIN + 300 * S))]
    b = event("default", "b", 0, BEGIN + 99 * S, BEGIN + 99 * S)
    found = count_rounds("streams: {default: {clock: {activation: 1s}}}", *heard, *a, b)
    assert found == {"a": KEPT, "b": 200 - 99, "c": 200}


def test_reports_for_another_stream_stay() -> None:
    text = "streams: {one: {}, two: {clock: {activation: 90s}}}"
    a = [event("one", "a", n, ns, ns) for n, ns in enumerate((BEGIN + 9 * S, BEGIN + 300 * S))]
    assert count_rounds(text, *rounds("a", BEGIN, 300, S), *a) == {"a": 300 - 211}


def test_reports_for_buffered_event_stay() -> None:
    text = """
streams: {one: {clock: {activation: 1s}}, two: {reorder: {rule: fixed, max_wait: 1h, start: zero}}}
"""
    a = [event("one", "a", n, ns, ns) for n, ns in enumerate((BEGIN + 9 * S, BEGIN + 300 * S))]
    held = event("two", "a", 1, BEGIN + 101 * S, BEGIN + 101 * S)
    assert count_rounds(text, *rounds("a", BEGIN, 300, S), *a, held) == {"a": 300 - 101}


def test_unread_reports_are_not_kept() -> None:
    replay = Replay(parse("streams: {default: {}}"), reads_reports=False)
    replay.on_inputs(rounds("a", BEGIN, 9, S))
    assert replay.save() is None
