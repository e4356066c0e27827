"""Laws: the duties of each operator, for any input (DESIGN.md section 4,
topology/base/operator.py).

Each law runs over all operators and settings of `all_cases.py`, and over seeded streams. A failure
names settings and seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from tests.kit.events import copies
from tests.kit.outputs import CONTROL, Outputs, Released, settled_offsets
from tests.kit.places import Keeping, give_back, ledger_of, places_of
from tests.kit.runs import cut, held_after_restart, through_changelog
from tests.laws.all_cases import ALL
from tests.laws.cases import Case
from tests.seeds import seeds_of_today
from topology.base.event import DATA, NO_EPOCH, WATERMARK, Event
from topology.base.operator import Operator
from topology.base.outcome import Duplicate, Gap, Late, Malformed, Report
from topology.order.merge.source import SOURCE

SEEDS = seeds_of_today(1)

QUIET_NS = 1_000_000_000
"""The longest time for which the laws advance the clock after an event."""


Law = Callable[[Case, int], None]


def every(case: Case) -> bool:
    return True


def law_where(applies: Callable[[Case], bool]) -> Callable[[Law], Callable[[Case], None]]:
    """Make one test for each operator and settings to which the law applies, over all seeds."""

    def over_cases(holds: Law) -> Callable[[Case], None]:
        cases = [case for case in ALL if applies(case)]

        @pytest.mark.parametrize("case", cases, ids=repr)
        def test(case: Case) -> None:
            for seed in SEEDS:
                try:
                    holds(case, seed)
                except AssertionError as failure:
                    failure.add_note(f"{case}, seed {seed}")
                    raise

        return test

    return over_cases


law = law_where(every)

IN_MERGE = 1
"""The place of MERGE; no operator that keeps what has passed has this place."""


def one_by_one(events: list[Event], rng: Random) -> Iterator[list[Event]]:
    for event in events:
        yield [event]


def all_at_once(events: list[Event], rng: Random) -> Iterator[list[Event]]:
    yield events


Cut = Callable[[list[Event], Random], Iterator[list[Event]]]


class Run:
    """One run of an operator over a stream, step by step; `now_ns` is its latest instant."""

    def __init__(self, case: Case, seed: int, how: Cut = all_at_once) -> None:
        self.case = case
        self.rng = Random(seed)
        self.raw = case.stream(seed)
        self.operator: Operator = case.make()
        self.outputs = Outputs()
        self.released: list[Event] = []
        self.reports: list[Report] = []
        self.freed: list[Event] = []
        self.keeping = Keeping()
        self.taken: list[Event] = []
        self.now_ns = 0
        self._batches = list(how(copies(self.raw), self.rng))
        self._record_moves()

    def _record_moves(self) -> None:
        ledger = ledger_of(self.operator)
        if ledger is not None:
            ledger.moved = []

    def steps(self) -> Iterator[None]:
        """Yield after each batch, so that a law can look at the operator."""
        for batch in self._batches:
            self.taken += batch
            self.now_ns = max([self.now_ns, *(event.at_ns for event in batch)])
            self._add(self.operator.on_batch(batch, self.now_ns))
            yield

    def to_end(self) -> Run:
        for _ in self.steps():
            pass
        return self.end()

    def end(self) -> Run:
        self._add(self.operator.on_time(self.now_ns))
        self.operator.seal()
        self._add(self.operator.on_end(self.now_ns))
        return self

    def on_time(self, now_ns: int) -> None:
        self._add(self.operator.on_time(now_ns))
        self.now_ns = max(self.now_ns, now_ns)

    def quiet(self, at_most_ns: int = QUIET_NS) -> range:
        """Return the instants at which time can advance: from the last event until before the next.

        With upstream partitions time comes from them, so any instant is valid.
        """
        if self.case.aligned:
            return range(self.now_ns, self.now_ns + 1)
        end_ns = self.now_ns + at_most_ns
        if len(self.taken) < len(self.raw):
            end_ns = min(end_ns, self.raw[len(self.taken)].at_ns)
        return range(self.now_ns, end_ns)

    def restart(self) -> None:
        """Stop and start the operator again, as a worker does."""
        state = through_changelog(self.operator.snapshot())
        held = held_after_restart(self.operator, self.raw, self.case.stamped_from)
        again = self.case.make()
        give_back(again, state, held)
        assert through_changelog(again.snapshot()) == state
        self.operator = again
        self._record_moves()
        self.keeping.begin_with(again.iter_held())

    def _add(self, step: Any) -> None:
        self.outputs.add(step)
        self.released += step.released
        self.reports += step.reports
        self.keeping.add(step)
        ledger = ledger_of(self.operator)
        if ledger is None:
            self.freed += step.freed
        else:
            moved = dict.fromkeys(ledger.take_moved())
            self.freed += [event for event in moved if not ledger.places_of(event)]

    def outcome(self) -> tuple[Any, ...]:
        """Return all output except watermarks, which come with the ticks.

        In a chain of operators, the reports of one instant have no order.
        """
        reports = self.outputs.reports
        if self.case.several_operators:
            reports = sorted(reports, key=repr)
        return by_stream(self.outputs.without_watermarks()), reports, self.outputs.results


def by_stream(events: list[Released]) -> dict[str, list[Released]]:
    """Group events by stream, because streams in one stage have no common order.

    In these tests the odd sources form a separate stream.
    """
    streams: dict[str, list[Released]] = {}
    for event in events:
        streams.setdefault(event.stream, []).append(event)
    return streams


@law
def test_batches_do_not_change_output(case: Case, seed: int) -> None:
    whole = Run(case, seed).to_end()
    assert Run(case, seed).to_end().outputs.released == whole.outputs.released
    for how in (one_by_one, cut):
        parted = Run(case, seed, how).to_end()
        assert parted.outcome() == whole.outcome()
        if not case.aligned and not case.several_operators:
            assert parted.outputs.released == whole.outputs.released


@law
def test_ticks_do_not_change_output(case: Case, seed: int) -> None:
    ticking = Run(case, seed, cut)
    for _ in ticking.steps():
        for _ in range(ticking.rng.choice((0, 1, 3))):
            if quiet := ticking.quiet():
                ticking.on_time(ticking.rng.choice(quiet))
    calm = Run(case, seed)
    for _ in calm.steps():
        pass
    calm.on_time(ticking.now_ns)
    assert ticking.end().outcome() == calm.end().outcome()


@law
def test_deadline_is_not_too_late(case: Case, seed: int) -> None:
    run = Run(case, seed, cut)
    for _ in run.steps():
        deadline_ns = run.operator.next_deadline_ns()
        quiet = run.quiet()
        if not quiet or (deadline_ns is not None and deadline_ns <= quiet[0]):
            continue
        before = list(map(len, vars(run.outputs).values()))
        run.on_time(quiet[-1] if deadline_ns is None else min(deadline_ns - 1, quiet[-1]))
        assert list(map(len, vars(run.outputs).values())) == before


@law
def test_restart_changes_nothing(case: Case, seed: int) -> None:
    steady = Run(case, seed).to_end()
    shaken = Run(case, seed, cut)
    for _ in shaken.steps():
        if shaken.rng.random() < 0.3:
            shaken.restart()
    assert shaken.end().outcome() == steady.outcome()


@law
def test_restart_just_before_end(case: Case, seed: int) -> None:
    """The input ends right after the restart, so that no later event can repair lost state."""
    rng, events = Random(seed), len(case.stream(seed))
    for until in (rng.randrange(events), rng.randrange(events), events - 1):
        steady, shaken = Run(case, seed, one_by_one), Run(case, seed, one_by_one)
        for number, _ in enumerate(zip(steady.steps(), shaken.steps(), strict=True)):
            if number == until:
                break
        shaken.restart()
        assert shaken.end().outcome() == steady.end().outcome()


@law
def test_changes_give_the_snapshot(case: Case, seed: int) -> None:
    run = Run(case, seed, cut)
    table: dict[str, Any] = {}
    for _ in run.steps():
        if run.rng.random() < 0.3 and (quiet := run.quiet()):
            run.on_time(quiet[-1])
        for key, value in run.operator.changes().items():
            if value is None:
                table.pop(key, None)
            else:
                table[key] = through_changelog(value)
        assert table == through_changelog(run.operator.snapshot())


@law
def test_kept_events_are_held(case: Case, seed: int) -> None:
    run = Run(case, seed, cut)
    for _ in run.steps():
        if run.rng.random() < 0.1:
            run.restart()
        assert not held_or_kept_alone(run)
    run.end()
    assert not held_or_kept_alone(run)


def held_or_kept_alone(run: Run) -> set[Event]:
    """Return the events that are kept and not held, or held and not kept."""
    ledger = ledger_of(run.operator)
    kept = run.keeping.events.keys() if ledger is None else set(ledger.iter_kept(-1))
    return set(run.operator.iter_held()) ^ kept


@law_where(lambda case: not case.retains)
def test_each_event_has_one_outcome(case: Case, seed: int) -> None:
    run = Run(case, seed, cut)
    all_data = {event.offset for event in run.raw if event.kind == DATA}
    for _ in run.steps():
        held = [event.offset for event in run.operator.iter_held() if event.kind == DATA]
        gone = settled_offsets(run.released, run.reports, all_data)
        assert sorted(gone + held) == sorted(e.offset for e in run.taken if e.offset in all_data)
    run.end()
    assert sorted(settled_offsets(run.released, run.reports, all_data)) == sorted(all_data)
    assert not list(run.operator.iter_held())


@law_where(lambda case: case.retains)
def test_retained_event_is_freed_once(case: Case, seed: int) -> None:
    """MERGE before speculative detectors can be the only one to hold an event. MERGE then emits
    that event without listing it as freed.
    """
    run = Run(case, seed, cut)
    kept: set[int] = set()
    for _ in run.steps():
        held = {event.offset for event in run.operator.iter_held()}
        freed = [event.offset for event in run.freed]
        assert kept - held <= set(freed)
        assert not held & set(freed)
        assert len(freed) == len(set(freed))
        if run.operator.keeps_passed:
            alone, places = ledger_of(run.operator) is None, places_of(run.operator)
            kept |= {each.offset for each, at in places.items() if alone or at != IN_MERGE}
    assert bool(kept) == run.operator.keeps_passed


@law
def test_bounds_hold_at_each_step(case: Case, seed: int) -> None:
    run = Run(case, seed, one_by_one)
    known: set[str] = set()
    for _ in run.steps():
        held = Counter(event.source for event in run.operator.iter_held())
        assert sum(held.values()) <= case.max_held
        assert max(held.values(), default=0) <= case.max_held_per_source
        before, known = known, known_sources(run.operator)
        if known - before:  # A new source makes room, but one with buffered events stays.
            assert len(known - held.keys() - known_blocked(run.operator)) <= case.max_sources


def known_sources(operator: Operator) -> set[str]:
    return {key.rpartition("/")[2] for key in operator.snapshot() if "/" in key} - {""}


def known_blocked(operator: Operator) -> set[str]:
    """Return the sources whose events wait in REORDER, as far as MERGE knows."""
    found = set()
    for key, value in operator.snapshot().items():
        if key.startswith("source/") and value[SOURCE.fields.index("blocked")]:
            found.add(key.removeprefix("source/"))
    return found


@law
def test_time_does_not_go_back(case: Case, seed: int) -> None:
    run = Run(case, seed, cut)
    spoken_ns = 0
    for _ in run.steps():
        pass
    run.end()
    instants = [event.at_ns for event in run.outputs.released]
    assert instants == sorted(instants)
    decided = [result.at_ns for result in run.outputs.results]
    assert decided == sorted(decided)
    again = case.make()
    for batch in cut(copies(run.raw), Random(seed)):
        now_ns = max([spoken_ns, *(event.at_ns for event in batch)])
        step = again.on_batch(batch, now_ns)
        emitted = [*step.released, *step.reports, *step.results]
        said_ns = [each.at_ns for each in emitted]
        assert min(said_ns, default=spoken_ns) >= spoken_ns
        if not case.aligned:
            assert step.now_ns == now_ns
        spoken_ns = max(spoken_ns, step.now_ns)


@law_where(lambda case: case.replays)  # Such a case remembers the events that it has read.
def test_repeated_input_is_not_new(case: Case, seed: int) -> None:
    run = Run(case, seed, cut)
    for _ in run.steps():
        pass
    unheard = {report.offset for report in run.reports if isinstance(report, Malformed)}
    held = {event.offset for event in run.operator.iter_held()}
    heard = {(event.source, event.epoch, event.seq) for event in run.released}
    seen = [event for event in copies(run.raw) if event.offset not in unheard]
    for event in seen:
        event.offset += len(run.raw)
        event.at_ns = event.arrival_ns = run.now_ns
    step = run.operator.on_batch(seen, run.now_ns)
    for event in step.released:
        again = event.offset >= len(run.raw) and event.kind == DATA
        name = event.source, event.epoch, event.seq
        if again and run.raw[event.offset - len(run.raw)].epoch == NO_EPOCH and name not in heard:
            heard.add(name)  # The event's epoch is inferred, and it can be the next event.
        else:
            assert not again or event.late, event
    for report in step.reports:
        assert not isinstance(report, Gap) or held
        # Buffered events can be given up, because suspects are buffered too.
        is_given_up = isinstance(report, Malformed) and report.offset in held
        assert is_given_up or isinstance(report, Gap | Late | Duplicate)


@law
def test_watermarks_are_never_broken(case: Case, seed: int) -> None:
    if "unmerged" in case.name:
        return  # This case reads accepted events, in no order, and emits none.
    run = Run(case, seed, cut)
    for _ in run.steps():
        if run.rng.random() < 0.3 and (quiet := run.quiet()):
            run.on_time(run.rng.choice(quiet))
    announced: dict[str, tuple[int, int]] = {}
    for event in run.released:
        watermark_ns, complete_ns = announced.get(event.stream, (-(1 << 63), -(1 << 63)))
        if event.kind == WATERMARK:
            assert event.ref_time_ns >= watermark_ns
            assert complete_ns <= event.complete_ns <= event.ref_time_ns
            announced[event.stream] = event.ref_time_ns, event.complete_ns
        elif event.kind not in CONTROL and not event.late:
            assert event.ref_time_ns >= watermark_ns


@law_where(  # The law holds only while the operator knows the source.
    lambda case: case.reorders and case.max_sources > 1 and "one of each known" not in case.name
)
def test_each_source_is_in_sequence(case: Case, seed: int) -> None:
    """If MERGE sorts by time, this requires timestamps that rise with the numbers."""
    sources: dict[str, list[Released]] = {}
    for event in Run(case, seed, cut).to_end().outputs.in_order():
        sources.setdefault(event.source, []).append(event)
    for own in sources.values():
        numbers = [(event.epoch, event.seq) for event in own]
        refs = [event.ref_time_ns for event in sorted(own, key=lambda e: (e.epoch, e.seq))]
        if not case.several_operators or refs == sorted(refs):
            assert numbers == sorted(set(numbers))
