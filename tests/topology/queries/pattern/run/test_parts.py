"""Examples and laws of the parts of a run: admission, evaluation, emission, SKIP, rows, levels.

The laws and oracles of this folder, and of the folder above, cover the modules together.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.topology.queries.pattern.following import fed, taken
from tests.topology.queries.pattern.generate import entry, of_text
from topology.base.outcome import Step
from topology.base.result import EMIT, RETRACT, UNCERTAIN, UPDATE, MatchResult
from topology.queries.pattern.language.parse import parse, parse_query
from topology.queries.pattern.match.compiled import Compiled
from topology.queries.pattern.match.match import Match
from topology.queries.pattern.run.admit import (
    CONFLICT,
    DUPLICATE,
    EXPIRED,
    REFUSED,
    STORED,
    Admission,
)
from topology.queries.pattern.run.affect import find_affected
from topology.queries.pattern.run.emit import emit_unit
from topology.queries.pattern.run.engine import ENGINE, Engine
from topology.queries.pattern.run.evaluate import evaluate, follow
from topology.queries.pattern.run.forget import forget
from topology.queries.pattern.run.found_match import FoundMatch
from topology.queries.pattern.run.level import group_by_level
from topology.queries.pattern.run.match_results import split_at_known
from topology.queries.pattern.run.run import MatchUnit, Run
from topology.queries.pattern.run.selection import Selection
from topology.queries.pattern.run.slack import Lateness
from topology.queries.pattern.store.entry import Entry

PAIR = "PATTERN SEQ(A a, B b) WITHIN 10 ns"
NO_B = "PATTERN SEQ(A a, !B b, C c) WITHIN 10 ns"


def run_of(text: str, events: str) -> Run:
    """Return the only run of a query after some events."""
    (run,) = fed([Compiled(parse_query(text))], of_text(events)).levels[0].runs()
    return run


def found_match(first: Entry, last: Entry, decided_ns: int = 50) -> FoundMatch:
    return FoundMatch(Match(0, ((first,), (last,))), decided_ns)


# -- admit -----------------------------------------------------------------------------------------


def test_admission_has_one_reason() -> None:
    admission = Admission(max_retained=1, max_error_ns=None)
    stored, same = entry("A", 5, 0, {"x": 1}), entry("A", 5, 0, {"x": 1})
    stored.places = 1
    assert admission.keep(stored)
    refused = [(entry("A", 5, 0), 0), (entry("A", 3, 1), 4), (entry("A", 5, 1), 4)]
    reasons = [admission.refusal(each.event, each.identity, ns) for each, ns in refused]
    assert reasons == [CONFLICT, EXPIRED, REFUSED]
    assert admission.outcome_of_known(same) == DUPLICATE
    assert admission.outcome_of_known(entry("A", 5, 0, {"x": 2})) == CONFLICT
    admission.let_go([stored])
    assert (admission.freed, admission.retained) == ([stored.event], {})


@pytest.mark.parametrize("seed", range(10))
def test_each_event_is_freed_once(seed: int) -> None:
    """Law: an event is freed once, and only when no match within the window can need it."""
    rng, engine, freed = Random(seed), Engine([Compiled(parse_query(PAIR))]), list[int]()
    times = [at + rng.randrange(4) for at in range(0, 300, 2)]
    for seq, time_ns in enumerate(times):
        assert engine.accept(entry(rng.choice("AB"), time_ns, seq), 0) == STORED
        engine.advance(time_ns - 5, 0)
        step = Step(0)
        engine.flush(step)
        assert all(event.ref_time_ns < engine.frontier_ns - 10 for event in step.freed)
        freed += [event.seq for event in step.freed]
    engine.end(0)
    last = Step(0)
    engine.flush(last)
    assert sorted([*freed, *(event.seq for event in last.freed)]) == [*range(len(times))]


# -- affect and evaluate ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_other_units_do_not_change(seed: int) -> None:
    """Law: an event changes no unit that `find_affected` leaves out."""
    rng, engine = Random(seed), Engine([Compiled(parse_query(NO_B + " MATCHES ALL"))])
    for seq in range(30):
        event = entry(rng.choice("ABC"), rng.randrange(40), seq)
        engine.accept(event, 0)
        for run in engine.levels[0].runs():
            before = {key: set(unit.found) for key, unit in run.units.items()}
            for anchor in run.anchors(-100, 100):
                assert set(evaluate(run, anchor).found) == before.get(anchor.key, set())
    late = run_of(NO_B, "a1 c5 a20 c25")
    assert [
        each.time_ns for each in find_affected(late, entry("B", 3, 9), (1,), in_order=False)
    ] == [1]


def test_only_plain_runs_follow_events() -> None:
    plain, general = run_of(PAIR, "a1 b2 a3"), run_of(NO_B, "a1")
    assert plain.walks is not None
    assert follow(general, entry("C", 3, 1), (2,), in_order=True) is None


# -- emit ------------------------------------------------------------------------------------------


def test_difference_is_emitted() -> None:
    """Each revision follows from the one before, and what stays the same is not emitted."""
    run, (first, last) = run_of(NO_B, "a1"), of_text("a1 c2")
    unit, found = MatchUnit(first, run), found_match(first, last)
    doubted = FoundMatch(found.match, 50, UNCERTAIN)
    changes = [
        [(each.op, each.revision, each.final) for each in emit_unit(run, unit, visible)]
        for visible in ({"x": found}, {"x": found}, {"x": doubted}, {}, {}, {"x": found})
    ]
    assert changes == [
        [(EMIT, 0, False)],
        [],
        [(UPDATE, 1, False)],
        [(RETRACT, 2, False)],
        [],
        [(EMIT, 3, False)],
    ]


def test_late_event_retracts_match() -> None:
    engine = fed([Compiled(parse_query(NO_B))], of_text("a1 c5 b3"))
    ops = [isinstance(each, MatchResult) and each.op for each in taken(engine)]
    assert ops == [EMIT, RETRACT]
    assert taken(engine) == []


def test_decided_match_is_frozen() -> None:
    run, (first, second, last) = run_of(NO_B, "a1"), of_text("a1 c2 c3")
    unit, old, new = MatchUnit(first, run), found_match(first, second, 5), found_match(first, last)
    unit.replace({"old": old}, 0)
    unit.replace({"new": new}, 6)
    assert unit.found == {"new": new, "old": old}
    unit.forget(6)
    assert unit.found == {"new": new}


def test_members_join_in_runs() -> None:
    a, b, c, d = of_text("a1 a2 a3 a4")
    assert split_at_known([a, b, c, d], [b]) == [[a], [c, d]]


# -- SKIP ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_skip_matches_fresh_selection(seed: int) -> None:
    """Law: after each change, SKIP keeps what it keeps among all visible matches at once."""
    rng, query = Random(seed), Compiled(parse_query(PAIR + " SKIP PAST LAST"))
    selection, visible = Selection(query), dict[Entry, dict[str, FoundMatch]]()
    starts = [entry("A", at, at) for at in range(20)]
    for seq in range(20, 60):
        anchor, fresh = rng.choice(starts), Selection(query)
        end = entry("B", anchor.time_ns + rng.randrange(1, 6), seq)
        visible[anchor] = {f"{seq}": found_match(anchor, end)} if rng.random() < 0.8 else {}
        selection.replace(anchor.key, visible[anchor])
        for each, matches in visible.items():
            fresh.replace(each.key, matches)
        selection.reapply()
        fresh.reapply()
        for each in visible:
            assert selection.list_kept(each.key) == fresh.list_kept(each.key)


# -- rows, levels and lateness ---------------------------------------------------------------------


def test_rows_follow_units() -> None:
    """A unit's row is written once, restored, and deleted when the unit is forgotten."""
    query = Compiled(parse_query(NO_B))
    engine = fed([query], of_text("a1 c5"))
    state = engine.snapshot()
    assert [engine.changes(), [*engine.changes()]] == [state, [ENGINE]]
    again = Engine([query])
    again.restore(state, [Entry(each.event, each.payload) for each in engine.entries()])
    assert (again.snapshot(), taken(again)) == (state, [])
    (run,) = again.levels[0].runs()
    run.agenda.advance(100)
    forget(run)
    assert not run.units
    assert [row for key, row in again.changes().items() if key != ENGINE] == [None]


def test_readers_come_after_what_they_read() -> None:
    reader, source = (f"QUERY {name} {PAIR}" for name in ("reader", "source"))
    texts = [reader.replace("A a", "AB a"), f"{source} RETURN a.x AS x INTO AB"]
    levels = group_by_level([Compiled(query) for query in parse("; ".join(texts))])
    assert [(set(types), [each.name for each in mine]) for types, mine in levels] == [
        (set(), ["source"]),
        ({"AB"}, ["reader"]),
    ]


def test_wait_follows_share_of_late() -> None:
    lateness = Lateness()
    waits = []
    for late_by_ns in (0, 0, 0, 4, 90):
        lateness.count(late_by_ns)
        waits.append(lateness.wait_ns(within_ns=100))
    assert waits == [0, 0, 0, 4, 40]
