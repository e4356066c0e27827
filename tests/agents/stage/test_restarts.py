"""Law: a stage restarted from its stored state gives the output of one that never stopped.

A checkpoint stores the changes of the operators' state and the pages of buffered events. A restart
makes a new stage from both and reads the later records again. Each event that an operator buffers
needs a note, or a restart would lose it.
"""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from agents.restore.rebuilding import StateParts
from agents.state import changelog
from agents.state.held import HeldPages
from agents.state.notes import apply_note
from inorder.engine import Detector, Found, Seen, parse
from tests.agents.state.stores.memory import apply_to
from tests.kit.events import copies
from tests.kit.outputs import Outputs
from tests.kit.places import give_back
from tests.kit.runs import cut
from tests.seeds import TODAY
from tests.simulation.test_simulation import READER, SIZES, WRITER, progress
from tests.simulation.world import World
from tests.topology.order.merge.test_one_instant import with_copies
from topology.base.event import Event, copy_event
from topology.base.outcome import Step
from topology.config import Topology
from topology.config.stages import DETECTOR, JOIN, MERGE, PATTERN, WINDOW
from topology.stage.lanes import lanes_of
from topology.stage.stage import Stage

LANES: Final = 3
ALL_SEEDS: Final = ((2, 3), (4, 5), (8, 12))
SEEDS: Final = sorted({seed for day in TODAY for seed in ALL_SEEDS[day % len(ALL_SEEDS)]})
"""Two of six seeds each day: worlds of one second with several hundred to 2,000 late events."""

KEYS: Final = 20
STREAMS: Final = """
streams:
  default: {reorder: {rule: fixed, max_wait: 20ms}, merge: {max_wait: 20ms}}
  other: {reorder: {rule: fixed, max_wait: 20ms}, merge: {max_wait: 20ms}}
stages: [reorder, merge+join]
queries:
  near: {join: interval 20ms, key: payload.k, outer: left,
         sides: {a: {stream: default}, b: {stream: other}}, quality: {accuracy: 90%, max_wait: 1s}}
  alone: {join: tumbling 50ms, key: payload.k, outer: full,
          sides: {a: {stream: default}, b: {stream: other}}, quality: {accuracy: 90%, max_wait: 1s}}
"""
ALL_KEEP: Final = """
  pairs: {pattern: 'PATTERN SEQ(A a, B b) WHERE [k] WITHIN 40 ms RETURN a.k AS k', stream: default}
  seen: {detector: counting, stream: default, reads: [default, pairs], key: payload.k}
"""
AHEAD: Final = "  seen: {detector: counting, stream: default, key: payload.k, answer: speculate}\n"
EARLIER: Final = """
  earlier: {join: interval 20ms, key: payload.k, outer: left, answer: speculate,
            sides: {a: {stream: default}, b: {stream: other}}}
"""
ALL_BEFORE: Final = f"""{EARLIER}
  counts: {{window: tumbling 50ms, aggregate: {{n: count()}}, stream: default, answer: speculate}}
  pairs: {{pattern: 'PATTERN SEQ(A a, B b) WITHIN 40 ms', stream: default, answer: speculate}}
"""
STAGES: Final = {
    "merge": ((MERGE,), ""),
    "joins before the merge and behind it": ((MERGE, JOIN), EARLIER),
    "join in the merge": ((MERGE, JOIN), ""),
    "all before the merge": ((MERGE, WINDOW, PATTERN, JOIN), ALL_BEFORE),
    "detectors ahead of the merge": ((MERGE, DETECTOR), AHEAD),
    "all of them": ((MERGE, JOIN, DETECTOR), f"{AHEAD}{EARLIER}"),
    "all that keep events": ((MERGE, PATTERN, JOIN, DETECTOR), ALL_KEEP),
}


def _counting(state: int, seen: Seen) -> tuple[int, Found | None]:
    return state + 1, Found({"n": state + 1}) if seen.type == "B" else None


COUNTING: Final = Detector(_counting, 0)


class Kept:
    """A stage and the state that a worker stores of it; `reads` is its input."""

    def __init__(
        self,
        topology: Topology,
        operators: tuple[str, ...],
        reads: list[Event],
        lanes: int = LANES,
    ) -> None:
        self._topology = topology
        self._lanes = lanes
        self._operators = operators
        self._reads = reads
        self._state: dict[bytes, bytes] = {}
        self.shared = 0  # notes of events that several operators buffer
        self._begin()

    def _begin(self) -> None:
        self._stage = Stage(self._topology, self._operators, lanes_of("raw", self._lanes))
        self._held = HeldPages(
            self._topology.spill_after_ns, self._stage.ledger, self._stage.waiting_places
        )

    def take(self, batch: list[Event]) -> Step:
        step = self._stage.on_batch(batch, batch[-1].at_ns)
        self._held.update(batch)
        return step

    def cut(self, now_ns: int) -> None:
        changes = {changelog.STATE + key: value for key, value in self._stage.changes().items()}
        changes.update(self._held.changes(now_ns))
        apply_to(self._state, changelog.encode_changes(changes))

    def restart(self) -> None:
        parts = StateParts()
        for key, value in self._state.items():
            parts.add(key.decode(), value)
        events = [copy_event(self._reads[offset]) for offset in sorted(parts.notes)]
        for event in events:
            apply_note(event, parts.notes[event.offset])
        places = {event: parts.notes[event.offset].places for event in events}
        self.shared += sum(at.bit_count() > 1 for at in places.values())
        self._begin()
        if self._state:
            give_back(self._stage, parts.operators, places)
            self._held.restore(events, parts.notes, parts.spilled)


def run_with_restarts(
    kept: Kept, cuts: list[list[Event]], rng: Random, restarts: float
) -> tuple[Outputs, int]:
    """Return all committed output, and the number of restarts."""
    committed, count = Outputs(), 0
    steps: list[Step] = []
    done = at = 0
    while at < len(cuts):
        batch = copies(cuts[at])
        steps.append(kept.take(batch))
        at += 1
        if at == len(cuts) or rng.random() < 0.3:
            kept.cut(batch[-1].at_ns)
            for step in steps:
                committed.add(step)
            steps, done = [], at
        elif rng.random() < restarts:
            kept.restart()
            steps, at, count = [], done, count + 1
    return committed, count


def sequenced(topology: Topology, seed: int, rng: Random) -> list[Event]:
    """Return the records that a stage of REORDER writes for several lanes."""
    world = World(seed, seconds=1, lanes=LANES)
    end_ns = max((event.at_ns for event in world.events()), default=0) + 2_000_000_000
    topic: list[tuple[float, Event]] = []
    for lane in range(LANES):
        stage = Stage(topology, ("reorder",))
        events = world.events(lane)
        for event in events:
            event.stream = "default" if event.source in ("m0", "m2") else "other"
        written: list[Event] = []
        for batch in cut(events, rng, SIZES):
            step = stage.on_batch(batch, batch[-1].at_ns)
            written += [*step.released, progress(step.now_ns)]
        written += [*stage.on_end(end_ns).released, progress(end_ns)]
        pace = rng.uniform(0.5, 2)
        topic += [(place * pace, read_from(each, lane)) for place, each in enumerate(written)]
    topic.sort(key=lambda placed: placed[0])
    for offset, (_, event) in enumerate(topic):
        event.offset = offset
    return [event for _, event in topic]


def read_from(event: Event, lane: int) -> Event:
    """Write the event as a record and read it back."""
    fields = {"sourceId": event.source, "seqNum": event.seq, "ts": event.ts_ns}
    original = [(name, str(value).encode()) for name, value in fields.items()]
    original.append(("streamId", event.stream.encode()))
    is_event = event.kind == ""
    headers = WRITER.stamp(event, original, lane) if is_event else WRITER.write_control(event, lane)
    read = READER.read_sequenced(headers, 0, 0, None, b'{"k": %d}' % (event.seq % KEYS))
    assert isinstance(read, Event), read
    read.type = "AB"[event.seq // 3 % 2]
    return read


@pytest.mark.in_turns(3)
@pytest.mark.slow
@pytest.mark.parametrize("case", STAGES)
def test_law_restart_changes_nothing(case: str) -> None:
    operators, reads = STAGES[case]
    topology = parse(STREAMS + reads, detectors={"counting": COUNTING})
    restarted = found = late = shared = 0
    for seed in SEEDS:
        topic = sequenced(topology, seed, Random(seed))
        cuts = list(cut(topic, Random(seed), SIZES))
        steady, _ = run_with_restarts(Kept(topology, operators, topic), cuts, Random(seed), 0)
        kept = Kept(topology, operators, topic)
        hurt, count = run_with_restarts(kept, cuts, Random(seed), 0.3)
        assert hurt.released == steady.released, f"seed {seed}"
        assert hurt.reports == steady.reports
        assert [repr(each) for each in hurt.results] == [repr(each) for each in steady.results]
        restarted += count
        shared += kept.shared
        found += len(steady.results)
        late += sum(each.late != "" for each in steady.released)
    assert restarted > len(SEEDS)
    assert found or JOIN not in operators
    assert late
    assert shared or DETECTOR not in operators


@pytest.mark.parametrize("seed", range(20))
def test_law_restart_keeps_late_copy(seed: int) -> None:
    """MERGE buffers both the event in order and its late copy, and restarts after each record."""
    topology = parse("streams: {default: {clock: {unsynced: trust}, merge: {max_wait: 50ms}}}")
    topic: list[Event] = []
    for event in with_copies(Random(seed)):
        topic += (read_from(event, 0), read_from(progress(event.at_ns), 0))
    for offset, event in enumerate(topic):
        event.offset = offset
    steady, hurt = (Kept(topology, (MERGE,), topic, lanes=1) for _ in range(2))
    told, again = Outputs(), Outputs()
    for event in topic:
        for kept, what in ((steady, told), (hurt, again)):
            what.add(kept.take([copy_event(event)]))
            kept.cut(event.at_ns)
        hurt.restart()
    assert again.released == told.released
    assert again.reports == told.reports
    assert any(each.late for each in told.released)
