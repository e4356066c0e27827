"""Examples: the operator in the chain, and queries that come and go by a restart."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.kit.runs import through_changelog
from tests.kit.topologies import in_code
from topology.config import Topology, parse
from topology.flow.chain import Chain
from topology.flow.registry import chain_of
from topology.flow.stage import Stage
from topology.model.event import WATERMARK, Event, twin
from topology.model.outcome import Step
from topology.model.result import MatchResult

MS = 1_000_000

TOPOLOGY = """\
streams: {{default: {{clock: {{unsynced: trust}}, merge: {{new_source_allowance: 0s}}}}}}
{more}"""
AB = "PATTERN SEQ(A a, B b) WITHIN 10 ms"
AB_LATER = "PATTERN SEQ(A a, !N n, B b) WITHIN 10 ms"


def topology(more: str = "") -> Topology:
    return parse(TOPOLOGY.format(more=more))


def stage(of: Topology) -> Stage:
    return Stage(of, ["pattern"])


def event(type_: str, ms: int, seq: int, value: Any = None, error_ns: int = 0) -> Event:
    made = Event("default", "s", 0, seq, ms * MS, ms * MS, seq, value=value, type=type_)
    made.error_ns = error_ns
    return made


def watermark(ms: int, complete_ms: int | None = None) -> Event:
    made = Event("default", "", 0, 0, ms * MS, ms * MS, kind=WATERMARK)
    made.complete_ns = (ms if complete_ms is None else complete_ms) * MS
    return made


def told(step: Step) -> list[tuple[str, str, bool, list[int]]]:
    found = []
    for finding in step.results:
        assert isinstance(finding, MatchResult)
        seqs = [member.seq for member in finding.members]
        found.append((finding.query, finding.op, finding.final, seqs))
    return found


def give(to: Stage, *events: Event) -> Step:
    return to.on_batch(events, events[-1].at_ns)


def looking_for(**patterns: str) -> Topology:
    queries = {name: {"pattern": text} for name, text in patterns.items()}
    return topology(f"queries: {json.dumps(queries)}")


def restarted(running: Stage, of: Topology) -> Stage:
    again = stage(of)
    again.restore(running.snapshot(), [again_of(one) for one in kept(running)])
    return again


def kept(of: Stage) -> list[Event]:
    return list(of.held())


def test_events_pass_and_stay_held_until_nothing_can_come_of_them() -> None:
    running = stage(topology(f"queries: {{ab: {{pattern: {json.dumps(AB)}}}}}"))
    running.keep_moved()
    events = [event("A", 0, 0), event("X", 1, 1), event("B", 2, 2)]
    step = give(running, *events)
    assert step.released == events
    assert told(step) == [("ab", "emit", False, [0, 2])]
    assert [one.seq for one in kept(running)] == [0, 2], "an X is nobody's"
    assert [one.held_by > 0 for one in events] == [True, False, True]
    assert not list(running.waiting())
    give(running, watermark(1_000))
    assert not kept(running)
    assert {one.seq for one in running.take_moved() if not one.held_by} >= {0, 2}


def test_a_result_is_told_again_when_it_is_final() -> None:
    query = f"{{pattern: {json.dumps(AB)}, finals: true}}"
    running = stage(topology(f"queries: {{ab: {query}}}"))
    assert told(give(running, event("A", 0, 0), event("B", 2, 2))) == [
        ("ab", "emit", False, [0, 2])
    ]
    assert told(give(running, watermark(2))) == []
    assert told(give(running, watermark(3))) == [("ab", "update", True, [0, 2])]


def test_what_the_complete_frontier_leaves_open_is_corrected_for_a_while() -> None:
    more = f"correct_for: 100ms\nqueries: {{ab: {{pattern: {json.dumps(AB)}}}}}"
    running = stage(topology(more))
    give(running, event("A", 0, 0), event("B", 5, 5), watermark(50, complete_ms=0))
    assert told(give(running, event("B", 4, 4))) == [("ab", "update", False, [0, 4])]
    give(running, watermark(104, complete_ms=0))
    assert told(give(running, event("B", 3, 3))) == [], "it is behind by more than correct_for"
    assert running.chains["default"].figures()["pattern_late"] == 1


GONE = "PATTERN SEQ(A a, !A) WITHIN 10 ms EMIT EAGER"


@pytest.mark.parametrize("more", ["", "UNCERTAIN IGNORE", "SKIP PAST LAST", "MATCHES BEST"])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_an_absence_is_over_when_the_watermark_has_passed_it(more: str, is_restarted: bool) -> None:
    """Though C, and all who might send, stay behind. A stage of its own has the same records."""
    query = json.dumps(GONE.replace("EMIT", f"{more} EMIT"))
    of = topology(f"queries: {{gone: {{pattern: {query}}}}}")
    running = stage(of)

    def again() -> Stage:
        if not is_restarted:
            return running
        other = stage(of)
        other.restore(running.snapshot(), [again_of(one) for one in kept(running)])
        return other

    assert told(give(running, event("A", 0, 0), watermark(10, complete_ms=0))) == []
    running = again()
    assert told(give(running, watermark(11, complete_ms=0))) == [("gone", "emit", False, [0])]
    running = again()
    assert told(give(running, watermark(99, complete_ms=0))) == []
    running = again()
    assert told(give(running, late(event("A", 10, 1), at_ms=99))) == [
        ("gone", "retract", False, [0]),
        ("gone", "emit", False, [1]),
    ]
    running = again()
    assert told(give(running, watermark(100, complete_ms=0))) == []


def late(event: Event, at_ms: int) -> Event:
    event.at_ns, event.late = at_ms * MS, "merge_idle"
    return event


def test_an_absence_waits_for_errors_as_windows_do() -> None:
    running = stage(topology(f"queries: {{gone: {{pattern: {json.dumps(GONE)}}}}}"))
    unsure = watermark(15, complete_ms=0)
    unsure.error_ns = 5 * MS
    assert told(give(running, event("A", 0, 0), unsure)) == []
    assert told(give(running, watermark(15, complete_ms=0))) == [("gone", "emit", False, [0])]


@pytest.mark.parametrize("every_ms", [1, 7, 1_000])
def test_each_absence_is_over_at_its_own_beat(every_ms: int) -> None:
    """However many beats one record announces, and however time is passed."""
    more = (
        'queries: {gone: {pattern: "PATTERN SEQ(A a, !A FOR 10 ms) WITHIN 20 ms EMIT EAGER'
        ' RETURN a.seq AS a INTO Gone"},'
        ' after: {pattern: "PATTERN SEQ(Gone g, !Gone FOR 7 ms) WITHIN 10 ms EMIT EAGER"}}'
    )
    of = in_code(
        "streams: {default: {clock: {unsynced: trust}, merge: {idle_after: 5ms, quiet_after: 5ms,"
        f" max_wait: 5ms}}}}}}\nheartbeat: 1ms\nstages: [reorder+merge+pattern]\n{more}"
    )
    running = Stage(of, ["reorder", "merge", "pattern"])
    results = give(running, event("A", 0, 0)).results
    for ms in range(every_ms, 1_000 + every_ms, every_ms):
        results += running.on_time(ms * MS).results
    found = [(each.query, each.at_ns // MS) for each in results if isinstance(each, MatchResult)]
    assert found == [("gone", 15), ("after", 22)]


def test_an_undecodable_payload_is_null_and_counted() -> None:
    query = json.dumps("PATTERN SEQ(A a, B b) WHERE a.x = 1 WITHIN 10 ms")
    running = stage(topology(f"queries: {{ab: {{pattern: {query}}}}}"))
    events = [event("A", 0, 0, b"{"), event("A", 1, 1, b'{"x": 1}'), event("B", 2, 2, b"")]
    assert told(give(running, *events)) == [("ab", "emit", False, [1, 2])]
    assert running.chains["default"].figures()["pattern_unreadable"] == 1


def test_what_is_left_out_for_its_time_is_counted() -> None:
    running = stage(topology(f"queries: {{ab: {{pattern: {json.dumps(AB)}}}}}"))
    give(running, event("A", 0, 0, error_ns=2 * 3_600_000 * MS), event("A", 1 << 50, 1))
    figures = running.chains["default"].figures()
    assert (figures["pattern_error_too_large"], figures["pattern_out_of_range"]) == (1, 1)


def test_a_query_that_is_added_counts_from_then_on() -> None:
    running = stage(looking_for(old=AB_LATER.replace("A a", "X a")))
    assert told(give(running, event("A", 0, 0), event("B", 1, 1))) == []
    of = looking_for(old=AB_LATER.replace("A a", "X a"), new=AB)
    running = restarted(running, of)
    assert told(give(running, event("B", 2, 2))) == [], "its A came before"
    assert told(give(running, event("A", 3, 3), event("B", 4, 4))) == [
        ("new", "emit", False, [3, 4])
    ]
    again = restarted(running, of)
    assert told(give(again, event("B", 2, 5), event("A", 6, 6), event("B", 7, 7))) == [
        ("new", "emit", False, [6, 7])
    ]


def test_the_others_go_on_and_one_that_is_removed_retracts_nothing() -> None:
    running, table = stage(looking_for(one=AB)), dict[str, Any]()
    give(running, event("A", 0, 0), event("B", 5, 5))
    checkpoint(running, table)
    running = restarted(running, looking_for(one=AB, two=AB_LATER))
    assert told(give(running, event("B", 4, 4))) == [("one", "update", False, [0, 4])]
    checkpoint(running, table)
    assert any("/one/" in key for key in table)
    running = restarted(running, looking_for(two=AB_LATER))
    assert told(give(running, event("B", 3, 3))) == []
    checkpoint(running, table)
    assert not any("/one/" in key for key in table), "its state is gone"
    assert told(give(running, event("A", 20, 20), event("B", 21, 21))) == [
        ("two", "emit", False, [20, 21])
    ]


def test_accepted_events_are_matched_at_once_and_corrected_also_after_a_restart() -> None:
    of = topology(
        f"correct_for: 50ms\nqueries: {{ab: {{pattern: {json.dumps(AB)}, answer: speculate}}}}"
    )

    def fresh() -> Chain:
        return chain_of(of, "default", ["merge", "pattern"])

    running = fresh()

    def at_5(type_: str, ms: int, source: str) -> Event:
        made = event(type_, ms, ms)
        made.source, made.at_ns = source, 5 * MS
        return made

    first = [at_5("B", 5, "s"), at_5("A", 1, "t")]
    assert told(running.on_batch(first, 5 * MS)) == [("ab", "emit", False, [1, 5])]
    again = fresh()
    again.restore(through_changelog(running.snapshot()), [twin(one) for one in running.held()])
    more = [at_5("B", 5, "s"), at_5("B", 4, "u")]
    assert told(again.on_batch(more, 6 * MS)) == [("ab", "update", False, [1, 4])]


def checkpoint(running: Stage, table: dict[str, Any]) -> None:
    for key, value in running.changes().items():
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value


def again_of(one: Event) -> Event:
    made = event(one.type, one.ref_time_ns // MS, one.seq, one.value, one.error_ns)
    made.held_by = one.held_by
    return made


AB_INTO = f"{AB} RETURN a.seq AS a INTO AB"
AB_THEN_C = "PATTERN SEQ(AB m, C c) WHERE m.a < c.seq WITHIN 20 ms"


def test_matches_are_events_of_other_patterns_also_after_a_restart() -> None:
    of = topology(
        f"queries: {{ab: {{pattern: {json.dumps(AB_INTO)}}},"
        f" then: {{pattern: {json.dumps(AB_THEN_C)}}}}}"
    )
    running, table = stage(of), dict[str, Any]()
    told_first = told(give(running, event("A", 1, 1), event("B", 3, 3), event("C", 6, 6)))
    assert told_first == [("ab", "emit", False, [1, 3]), ("then", "emit", False, [1, 3, 6])]
    checkpoint(running, table)
    again = stage(of)
    again.restore(table, [again_of(one) for one in kept(running)])
    late = event("B", 2, 2)
    late.at_ns = 7 * MS
    assert told(give(again, late)) == [
        ("ab", "update", False, [1, 2]),
        ("then", "retract", False, [1, 3, 6]),
        ("then", "emit", False, [1, 2, 6]),
    ], "the match of another end is another event"
    step = give(again, watermark(200))
    assert sorted(one.seq for one in step.freed) == [1, 2, 3, 6]
    assert kept(again) == []
    checkpoint(again, table)
    assert not any("match/" in key for key in table)


def test_a_chain_that_comes_and_goes() -> None:
    running = stage(looking_for(ab=AB_INTO))
    give(running, event("A", 1, 1), event("B", 2, 2))
    running = restarted(running, looking_for(ab=AB_INTO, then=AB_THEN_C))
    step = give(running, event("C", 3, 3), event("A", 4, 4), event("B", 5, 5), event("C", 6, 6))
    assert told(step) == [("ab", "emit", False, [4, 5]), ("then", "emit", False, [4, 5, 6])]
    running = restarted(running, looking_for(ab=AB_INTO))
    assert told(give(running, event("C", 7, 7), event("A", 8, 8), event("B", 9, 9))) == [
        ("ab", "emit", False, [8, 9])
    ]


def test_a_chain_keeps_what_it_reads_no_longer_than_it_may_be_asked_for() -> None:
    """Also where no query takes a match, and where a column is larger than a codec carries."""
    cube = "PATTERN A a WITHIN 5 ms RETURN a.n * a.n * a.n AS n INTO Cube"
    large = "PATTERN SEQ(Cube c, Z z) WHERE c.n > 5 WITHIN 5 ms"
    of = topology(
        f"queries: {{one: {{pattern: {json.dumps(cube)}}},"
        f" cubes: {{pattern: {json.dumps(large)}}}}}"
    )
    running, table = stage(of), dict[str, Any]()
    for at in range(400):
        give(running, event("A", 10 * at, at, {"n": -1 if at % 2 else 1 << 40}))
        give(running, watermark(10 * at))
        checkpoint(running, table)
        msgspec.msgpack.encode(table)
        assert sum("/match/" in key for key in table) <= 100
    step = give(running, watermark(10_000))
    assert all(one.type == "A" for one in step.freed)
    assert kept(running) == []
