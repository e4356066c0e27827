"""Examples: questions about an event, the sentences of the answers, and stored decisions."""

from __future__ import annotations

from typing import Any

import pytest

from agents.watch.decisions import COPY, DEAD, DIFFERS, GIVEN_UP, SENT_ON, TURNED_AWAY, Decisions
from agents.watch.location import ASK_ANOTHER, WHY_GIVEN_UP, WORDS, explain_event, is_informative
from agents.watch.port.question import LARGEST, NoQuestion, Question, parse_question
from topology.base import outcome
from topology.base.event import NO_EPOCH, Event
from topology.base.late import MERGE_IDLE
from topology.base.outcome import TIMEOUT, Duplicate, Gap, Late, Malformed

MS = 1_000_000
NOW = 1_000 * MS
ASKED = Question("s", 17)


def fact(stage: str, *, decided: Any = (), aligned: Any = None, **operators: Any) -> dict[str, Any]:
    names = {"reorder": ["reorder", "clock"], "merge": ["merge"]}.get(
        stage, ["reorder", "clock", "merge"]
    )
    return {
        "stage": stage,
        "operators": names,
        "topic": f"to.{stage}",
        "partition": 3,
        "now": NOW,
        "lag": 4,
        "alignment": aligned,
        "streams": {"pitch": operators} if operators else {},
        "decided": list(decided),
    }


def note(what: str, reason: str = "", **more: Any) -> dict[str, Any]:
    return {
        "what": what,
        "stream": "pitch",
        "source": "s",
        "epoch": 0,
        "first": 17,
        "last": 17,
        "reason": reason,
        "at_ns": NOW - 5 * MS,
        "arrival_ns": 0,
        "offset": 88,
        "by_ns": 0,
        **more,
    }


def at(where: str, **more: Any) -> dict[str, Any]:
    return {"where": where, "epoch": 0, "epoch_in_force": 0, **more}


def reorder(answer: Any = None, *decided: Any, **more: Any) -> dict[str, Any]:
    """Return the facts of a stage of REORDER alone."""
    operators = {} if answer is None else {"reorder": answer}
    return fact("reorder", decided=decided, **operators, **more)


def both(*decided: Any) -> dict[str, Any]:
    """Return the facts of a stage of REORDER and MERGE that has emitted the event."""
    return fact("both", reorder=PASSED, merge=MERGED, decided=decided)


HELD = at("held", since=NOW - 20 * MS, reason="hole", missing=[15, 16])
HELD |= {"missing_since": NOW - 25 * MS, "until": NOW + 30 * MS}
PASSED = at("passed")
MERGED = at("passed", watermark=NOW - 7 * MS)
AHEAD = at("not_come", newest=3)
SILENT = {"source": "q", "behind_hole": False, "after_pause": False, "until": 1_030 * MS}
BLOCKED = {"source": "r", "behind_hole": True, "after_pause": False, "until": None}
WAITS = at("held", since=NOW - MS, ref_time=9, error=MS, waits_for=[SILENT, BLOCKED])
ALIGNED = {"stream": "pitch", "since": NOW - MS, "waiting_for": ["b/1", "b/2"]}
AWAITED = at("awaited", missing_since=NOW - MS, until=NOW + 9 * MS)
LOST = at("lost", missing=[15, 17], given_up=NOW - 8 * MS)
IDLE = note("late", "merge_idle")
OF_WINDOW = {**fact("window", decided=[IDLE]), "operators": ["window"]}
OLD = note("late_apart", "old_epoch", by_ns=3 * MS)

CASES: dict[str, tuple[list[dict[str, Any]], str, str]] = {
    "behind a hole": ([reorder(HELD)], "held", "after a gap at numbers 15 to 16, awaited"),
    "at the start": ([reorder(HELD | {"reason": "start"})], "held", "first number of its"),
    "a jump": ([reorder(HELD | {"reason": "jump"})], "held", "its number jumped"),
    "a suspect": ([reorder(HELD | {"reason": "restart"})], "held", "its source has restarted"),
    "an epoch": ([reorder(HELD | {"reason": "epoch"})], "held", "epoch 0 of its"),
    "for a lane": ([fact("merge", aligned=ALIGNED)], "held", "progress of b/1, b/2 in the"),
    "for a partition of the task": (
        [fact("all", aligned=ALIGNED)],
        "held",
        "buffered before reorder in to.all/3 for 1 ms: waits for progress of b/1, b/2\n",
    ),
    "in merge": (
        [fact("merge", merge=WAITS)],
        "held",
        "waits for r: its events are buffered after a gap",
    ),
    "merge behind reorder": (
        [fact("merge", merge=AHEAD), reorder(PASSED)],
        "between",
        "4 records are not yet read there",
    ),
    "not in merge alone": (
        [fact("merge", merge=AHEAD)],
        "not_come",
        "is 3; no stage with reorder answered",
    ),
    "left": (
        [reorder(PASSED), fact("merge", merge=MERGED)],
        "emitted",
        "the watermark is 7 ms behind the clock",
    ),
    "late and passed on": (
        [both(IDLE)],
        "late",
        "end-of-stream marker (merge_idle); emitted, marked late",
    ),
    "late and kept out": ([reorder(None, OLD)], "late", "by 3 ms; not emitted, see events.late"),
    "late for reorder, in time for merge": (
        [reorder(PASSED, note("late", "gap")), fact("merge", merge=MERGED)],
        "emitted",
        "but merge was not beyond it",
    ),
    "late at merge, seen by a window": (
        [both(IDLE), OF_WINDOW],
        "late",
        "late in to.both/3, 5 ms ago: its source had been silent",
    ),
    "dead": ([reorder(None, note("dead", "value"))], "dead", "at offset 88"),
    "missing": ([reorder(AWAITED)], "awaited", "9 ms more at most"),
    "given up": (
        [reorder(LOST, note("gap", "timeout"))],
        "lost",
        "8 ms ago with numbers 15 to 17: it did not arrive in time",
    ),
    "ahead": ([reorder(at("not_come", highest=9))], "not_come", "source in to.reo"),
    "no merge": ([reorder(PASSED)], "let_go", "this worker does not merge"),
    "done with, long ago": (
        [fact("both", reorder=PASSED, merge=AHEAD)],
        "not_known",
        "it was late or a dead letter",
    ),
    "below": ([reorder(at("before_start", start=20))], "not_known", "start at 20"),
    "old": ([reorder(at("forgotten", floor=99))], "not_known", "below number 99"),
    "an old epoch": ([reorder(at("old_epoch"))], "not_known", "its epoch is over"),
    "nobody": ([], "unknown", "no partition that answered has seen source s"),
}


@pytest.mark.parametrize(("facts", "where", "words"), CASES.values(), ids=CASES)
def test_location_is_described(facts: list[dict[str, Any]], where: str, words: str) -> None:
    found = explain_event(ASKED, facts)
    assert found["where"] == where
    assert words in "\n".join(found["said"])
    assert where in WORDS


def test_answer_mentions_duplicates() -> None:
    clock = {"state": "synced", "offset_ns": -2 * MS, "error_ns": MS}
    told = reorder(HELD, note("conflict"), note("duplicate"), clock=clock)
    found = explain_event(ASKED, [told])
    assert found["where"] == "held"
    assert found["said"][0].startswith("pitch: s/0/17: buffered by reorder in to.reorder/3 for 20")
    assert "  arrived 2 more times, last 5 ms ago at offset 88: a duplicate" in found["said"]
    now = "synced now: ref_time = ts -2.000 ms, give or take 1.000"
    assert any(now in line for line in found["said"])


def test_silent_stage_is_named() -> None:
    silent = "stage merge does not answer"
    found = explain_event(ASKED, [reorder(PASSED)], [silent])
    assert found["said"][-1] == f"{silent}: its facts are missing here"
    assert silent in explain_event(ASKED, [], [silent])["said"][-1]


def test_standby_is_mentioned() -> None:
    said = f"stage all: {ASK_ANOTHER}"
    assert explain_event(ASKED, [], standbys=["all"])["said"] == [said]
    assert explain_event(ASKED, [reorder(PASSED)], standbys=["all"])["said"][-1] == said


def test_each_stream_is_located() -> None:
    one, other = reorder(HELD), reorder(at("not_come", highest=3))
    other["streams"] = {"stands": other["streams"]["pitch"]}
    found = explain_event(ASKED, [other, one])
    assert found["where"] == "held"
    assert [line.split(":")[0] for line in found["said"]] == ["pitch", "stands"]


def test_each_gap_reason_is_described() -> None:
    assert {outcome.TIMEOUT, outcome.OVERFLOW, outcome.JUMP, outcome.END} == WHY_GIVEN_UP.keys()


def test_empty_partition_is_silent() -> None:
    assert not is_informative(reorder())
    assert is_informative(reorder(HELD))
    assert is_informative(reorder(None, note("dead")))


def test_question_round_trip_is_exact() -> None:
    asked = parse_question({"source": "s", "seq": "17", "epoch": "2", "stream": "pitch"})
    assert asked == Question("s", 17, "pitch", 2)
    assert parse_question(asked.query()) == asked
    assert parse_question({"source": "s", "seq": "17", "epoch": "", "stream": ""}) == ASKED


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"seq": "1"}, "source: name the source"),
        ({"source": "s"}, "seq: '' is not a number"),
        ({"source": "s", "seq": "-1"}, "seq: '-1' is not a number"),
        ({"source": "s", "seq": "1", "epoch": "x"}, "epoch: 'x'"),
        ({"source": "s", "seq": str(LARGEST + 1)}, "above"),
        ({"source": "s" * 2_000, "seq": "1"}, "source: name"),
        ({"source": "s", "seq": "1", "sql": "1"}, "'sql' is an unknown field"),
    ],
)
def test_invalid_question_is_refused(query: dict[str, str], words: str) -> None:
    with pytest.raises(NoQuestion, match=words):
        parse_question(query)


# -- the record of decisions -----------------------------------------------------------------------


def event(seq: int, *, epoch: int = 0, source: str = "s") -> Event:
    return Event("pitch", source, epoch, seq, 100, 200, offset=7, value=b"payload")


def words(decisions: Decisions, seq: int, epoch: int = NO_EPOCH) -> list[str]:
    return [str(note["what"]) for note in decisions.about(None, "s", epoch, seq)]


def test_decision_is_found_by_number() -> None:
    decisions = Decisions()
    late = event(4)
    late.late, late.at_ns = MERGE_IDLE, 900
    decisions.note_late([late])
    decisions.note_reports(
        [
            Gap(800, "pitch", "s", 0, 10, 19, TIMEOUT, 700),
            Late(810, event(5), MERGE_IDLE, 33),
            Duplicate(820, event(6)),
            Duplicate(830, event(6), conflict=True),
            Malformed(840, 12, "value", "too large", "pitch", "s", 0, 8),
            Malformed(850, 13, "headers", "no source"),
        ]
    )
    assert words(decisions, 4) == [SENT_ON]
    assert words(decisions, 5) == [TURNED_AWAY]
    assert words(decisions, 6) == [COPY, DIFFERS]
    assert words(decisions, 8) == [DEAD]
    assert words(decisions, 10) == words(decisions, 19) == [GIVEN_UP]
    assert words(decisions, 20) == []
    (note,) = decisions.about("pitch", "s", 0, 5)
    assert (note["reason"], note["by_ns"], note["offset"]) == (MERGE_IDLE, 33, 7)
    assert "payload" not in str(decisions.about(None, "s", NO_EPOCH, 5))


def test_epoch_narrows_the_search() -> None:
    decisions = Decisions()
    decisions.note_reports([Duplicate(1, event(6, epoch=2))])
    assert words(decisions, 6, epoch=1) == []
    assert words(decisions, 6, epoch=2) == [COPY]
    assert decisions.about("other", "s", NO_EPOCH, 6) == []


def test_last_decisions_are_kept() -> None:
    decisions = Decisions(kept=10)
    decisions.note_reports([Duplicate(n, event(n)) for n in range(8)])
    decisions.note_reports([Duplicate(n, event(n)) for n in range(8, 25)])
    assert [seq for seq in range(25) if words(decisions, seq)] == list(range(15, 25))
