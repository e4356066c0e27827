"""Examples: the pattern operator in its chain, and queries added and removed by a restart."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.kit.places import give_back, places_of, twins
from tests.kit.runs import through_changelog
from tests.kit.topologies import in_code
from tests.topology.queries.pattern.following import Changelog
from topology.base.event import WATERMARK, Event
from topology.base.outcome import Step
from topology.base.result import MatchResult
from topology.config import Topology, parse
from topology.stage.chain import Chain
from topology.stage.ledger import Ledger
from topology.stage.registry import chain_of
from topology.stage.replay import Replay
from topology.stage.stage import Stage

MS = 1_000_000

AB = "PATTERN SEQ(A a, B b) WITHIN 10 ms"
AB_LATER = "PATTERN SEQ(A a, !N n, B b) WITHIN 10 ms"
XB = "PATTERN SEQ(X a, !N n, B b) WITHIN 10 ms"
GONE = "PATTERN SEQ(A a, !A) WITHIN 10 ms EMIT EAGER"


def topology(more: str = "", **queries: Any) -> Topology:
    """Return a topology of queries, each given as its pattern or with all its settings."""
    asked = {
        name: {"pattern": query} if isinstance(query, str) else query
        for name, query in queries.items()
    }
    clock = "{default: {clock: {unsynced: trust}, merge: {new_source_allowance: 0s}}}"
    return parse(f"streams: {clock}\nqueries: {json.dumps(asked)}\n{more}")


def stage(more: str = "", **queries: Any) -> Stage:
    return Stage(topology(more, **queries), ["pattern"])


def event(type_: str, ms: int, value: Any = None) -> Event:
    """Return an event whose time in ms equals its sequence number."""
    return Event("default", "s", 0, ms, ms * MS, ms * MS, ms, value=value, type=type_)


def events(text: str) -> list[Event]:
    """Return events: `a3` is an A at 3 ms; `w9/4` is a watermark at 9 ms, complete to 4 ms."""
    made = []
    for word in text.split():
        ms, _, complete_ms = word[1:].partition("/")
        made.append(event(word[0].upper(), int(ms)))
        if word[0] == "w":
            made[-1] = Event("default", "", 0, 0, int(ms) * MS, int(ms) * MS, kind=WATERMARK)
            made[-1].complete_ns = int(complete_ms or ms) * MS
    return made


def told(step: Step) -> list[str]:
    """Return each result's query, operation and event numbers; `!` marks a final result."""
    found = []
    for finding in step.results:
        assert isinstance(finding, MatchResult)
        seqs = " ".join(str(member.seq) for member in finding.members)
        found.append(f"{finding.query} {finding.op}{'!' if finding.final else ''} {seqs}")
    return found


def give(to: Stage | Chain, given: str | list[Event]) -> list[str]:
    """Return the results of the given events."""
    given = events(given) if isinstance(given, str) else given
    return told(to.on_batch(given, given[-1].at_ns))


def figures(running: Stage) -> dict[str, int]:
    return running.chains["default"].figures()


def restarted(running: Stage, table: dict[str, Any] | None = None, **queries: Any) -> Stage:
    """Return a stage with the given queries, restored from the running one."""
    again = stage(**queries)
    held = {
        event(one.type, one.ref_time_ns // MS, one.value): at
        for one, at in places_of(running).items()
    }
    give_back(again, running.snapshot() if table is None else table, held)
    return again


def test_needed_events_are_kept() -> None:
    running = stage(ab=AB)
    running.ledger.moved = []
    given = events("a0 x1 b2")
    step = running.on_batch(given, 2 * MS)
    assert step.released == given
    assert told(step) == ["ab emit 0 2"]
    assert [one.seq for one in running.iter_held()] == [0, 2], "an X is nobody's"
    assert running.ledger.kept_among(given) == {given[0], given[2]}
    assert not list(running.waiting())
    give(running, "w1000")
    assert not list(running.iter_held())
    assert {one.seq for one in running.ledger.take_moved()} == {0, 2}


def test_final_result_comes_again() -> None:
    running = stage(ab={"pattern": AB, "finals": True})
    found = [give(running, given) for given in ("a0 b2", "w2", "w3")]
    assert found == [["ab emit 0 2"], [], ["ab update! 0 2"]]


def test_lateness_bounds_corrections() -> None:
    """A result after the completeness frontier is corrected within the allowed lateness."""
    running = stage("correct_for: 100ms", ab=AB)
    give(running, "a0 b5 w50/0")
    assert give(running, "b4") == ["ab update 0 4"]
    give(running, "w104/0")
    assert give(running, "b3") == [], "it is behind by more than correct_for"
    assert figures(running)["pattern_late"] == 1


@pytest.mark.parametrize("more", ["", "UNCERTAIN IGNORE", "SKIP PAST LAST", "MATCHES BEST"])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_watermark_ends_absence(more: str, is_restarted: bool) -> None:
    """A watermark suffices even if the completeness frontier is behind, and after a restart."""
    gone = GONE.replace("EMIT", f"{more} EMIT")
    running = stage(gone=gone)
    late = events("a10")
    late[0].at_ns, late[0].late = 99 * MS, "merge_idle"
    for given, found in (
        (events("a0 w10/0"), []),
        (events("w11/0"), ["gone emit 0"]),
        (events("w99/0"), []),
        (late, ["gone retract 0", "gone emit 10"]),
        (events("w100/0"), []),
    ):
        assert give(running, given) == found
        if is_restarted:
            running = restarted(running, gone=gone)


def test_absence_waits_for_errors() -> None:
    running, given = stage(gone=GONE), events("a0 w15/0")
    given[-1].error_ns = 5 * MS
    assert give(running, given) == []
    assert give(running, "w15/0") == ["gone emit 0"]


@pytest.mark.parametrize("every_ms", [1, 7, 1_000])
def test_each_absence_ends_at_its_beat(every_ms: int) -> None:
    """Each absence ends on time, however large the steps of time are."""
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
    results = running.on_batch(events("a0"), 0).results
    for ms in range(every_ms, 1_000 + every_ms, every_ms):
        results += running.on_time(ms * MS).results
    found = [(each.query, each.at_ns // MS) for each in results if isinstance(each, MatchResult)]
    assert found == [("gone", 15), ("after", 22)]


def test_bad_payload_is_null_and_counted() -> None:
    running = stage(ab="PATTERN SEQ(A a, B b) WHERE a.x = 1 WITHIN 10 ms")
    given = [event("A", 0, b"{"), event("A", 1, b'{"x": 1}'), event("B", 2, b"")]
    assert give(running, given) == ["ab emit 1 2"]
    assert figures(running)["pattern_unreadable"] == 1


def test_unusable_times_are_counted() -> None:
    running, given = stage(ab=AB), [event("A", 0), event("A", 1 << 50)]
    given[0].error_ns = 2 * 3_600_000 * MS
    give(running, given)
    found = figures(running)
    assert (found["pattern_error_too_large"], found["pattern_out_of_range"]) == (1, 1)


def test_added_query_sees_later_events_only() -> None:
    running = stage(old=XB)
    assert give(running, "a0 b1") == []
    running = restarted(running, old=XB, new=AB)
    assert give(running, "b2") == [], "its A came before"
    assert give(running, "a3 b4") == ["new emit 3 4"]
    running = restarted(running, old=XB, new=AB)
    assert give(running, "b5 a6 b7") == ["new emit 6 7"]


def test_removed_query_retracts_nothing() -> None:
    """Other queries continue, and the removed query's state is deleted."""
    running, log = stage(one=AB), Changelog()
    give(running, "a0 b5")
    log.of(running)
    running = restarted(running, one=AB, two=AB_LATER)
    assert give(running, "b4") == ["one update 0 4"]
    log.of(running)
    assert any("/one/" in key for key in log.rows)
    running = restarted(running, two=AB_LATER)
    assert give(running, "b3") == []
    log.of(running)
    assert not any("/one/" in key for key in log.rows), "its state is gone"
    assert give(running, "a20 b21") == ["two emit 20 21"]


def test_accepted_match_survives_restart() -> None:
    """Accepted events are matched at once, and the match is corrected after a restart."""
    of = topology("correct_for: 50ms", ab={"pattern": AB, "answer": "speculate"})

    def at_5(text: str, sources: str) -> list[Event]:
        made = events(text)
        for one, source in zip(made, sources, strict=True):
            one.source, one.at_ns = source, 5 * MS
        return made

    running, again = (chain_of(of, "default", ["merge", "pattern"], Ledger()) for _ in range(2))
    assert give(running, at_5("b5 a1", "st")) == ["ab emit 1 5"]
    give_back(again, through_changelog(running.snapshot()), twins(places_of(running)))
    assert told(again.on_batch(at_5("b5 b4", "su"), 6 * MS)) == ["ab update 1 4"]


AB_INTO = f"{AB} RETURN a.seq AS a INTO AB"
AB_THEN_C = "PATTERN SEQ(AB m, C c) WHERE m.a < c.seq WITHIN 20 ms"


def test_chained_match_survives_restart() -> None:
    """A late event changes the end of a match, which is then another event of the chain."""
    running, log = stage(ab=AB_INTO, then=AB_THEN_C), Changelog()
    assert give(running, "a1 b3 c6") == ["ab emit 1 3", "then emit 1 3 6"]
    log.of(running)
    again = restarted(running, log.rows, ab=AB_INTO, then=AB_THEN_C)
    late = events("b2")
    late[0].at_ns = 7 * MS
    found = ["ab update 1 2", "then retract 1 3 6", "then emit 1 2 6"]
    assert give(again, late) == found, "the match of another end is another event"
    again.ledger.moved = []
    again.on_batch(events("w200"), 200 * MS)
    assert sorted(one.seq for one in again.ledger.take_moved()) == [1, 2, 3, 6]
    assert list(again.iter_held()) == []
    log.of(again)
    assert not any("match/" in key for key in log.rows)


def test_chain_can_be_added_and_removed() -> None:
    running = stage(ab=AB_INTO)
    give(running, "a1 b2")
    running = restarted(running, ab=AB_INTO, then=AB_THEN_C)
    assert give(running, "c3 a4 b5 c6") == ["ab emit 4 5", "then emit 4 5 6"]
    running = restarted(running, ab=AB_INTO)
    assert give(running, "c7 a8 b9") == ["ab emit 8 9"]


def test_chain_purges_its_matches() -> None:
    """A chain also purges matches that no query takes, and columns larger than a codec carries."""
    cube = "PATTERN A a WITHIN 5 ms RETURN a.n * a.n * a.n AS n INTO Cube"
    large = "PATTERN SEQ(Cube c, Z z) WHERE c.n > 5 WITHIN 5 ms"
    running, log = stage(one=cube, cubes=large), Changelog()
    for at in range(400):
        give(running, [event("A", 10 * at, {"n": -1 if at % 2 else 1 << 40})])
        give(running, f"w{10 * at}")
        log.of(running)
        msgspec.msgpack.encode(log.rows)
        assert sum("/match/" in key for key in log.rows) <= 100
    step = running.on_batch(events("w10000"), 10_000 * MS)
    assert all(one.type == "A" for one in step.freed)
    assert list(running.iter_held()) == []


def test_gone_source_does_not_grow_state() -> None:
    """After MERGE a pattern purges events past the allowed lateness, whichever source is idle."""
    settings = "stages: [reorder+merge]\ncorrect_for: 2min"
    replay = Replay(topology(settings, pairs="PATTERN SEQ(A a, B b) WITHIN 1 s"))
    replay.on_inputs([Event("default", "gone", 0, 0, 0, 0, type="A")], 0)
    retained = []
    for seq in range(1, 600):
        at_ns = seq * 1_000 * MS
        replay.on_inputs([Event("default", "b", 0, seq, at_ns, at_ns, type="A")], at_ns)
        retained.append(int(replay.figures()[0]["pattern_retained"]))
    # Two minutes of events, and those that are purged together.
    assert 115 < retained[130] < 135
    assert max(retained) < 200
