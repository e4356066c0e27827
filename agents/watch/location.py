"""Explains one event: where it is, what it waits for, and why it is late.

Each partition answers with its facts (`topology.base.location`) and its last decisions about
irregular events (`agents.watch.decisions`). This module turns the answers of all stages into one
word and into sentences for people. The functions are pure. The words in the answer's field `where`:

| word         | meaning                                                                         |
|--------------|---------------------------------------------------------------------------------|
| `held`       | it is buffered; the sentences name the operator, the cause and the longest wait |
| `between`    | REORDER has emitted it and MERGE has not read it yet                            |
| `emitted`    | it was emitted in order                                                         |
| `late`       | it arrived after later events had been emitted; the sentence names the cause    |
| `dead`       | it is a dead letter                                                             |
| `awaited`    | it has not arrived, and others wait for it                                      |
| `lost`       | it did not arrive in time, and the stage no longer waits for it                 |
| `not_come`   | its number is above all numbers that have arrived                               |
| `let_go`     | REORDER has emitted it, and this worker does not merge its stream               |
| `not_known`  | it is too old to be known                                                       |
| `unknown`    | no partition that answered has seen its source                                  |

For facts that are no longer stored, the sentence names the topic that still has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from agents.watch import sentences
from agents.watch.decisions import COPY, DEAD, DIFFERS, GIVEN_UP, SENT_ON, TURNED_AWAY
from agents.watch.port.question import Question
from agents.watch.sentences import format_correction, format_duration, format_gap
from topology.base import location, outcome

Fact = Mapping[str, Any]
"""The facts of one partition about one event."""

NAMED: Final = 5
MERGE: Final = "merge"
REORDER: Final = "reorder"
CLOCK: Final = "clock"
FLOW: Final = (REORDER, CLOCK, MERGE)
SURENESS: Final = (
    *(location.HELD, location.AWAITED, location.LOST, location.PASSED),
    *(location.BEFORE_START, location.FORGOTTEN, location.OLD_EPOCH, location.NOT_COME),
)
"""Answers in the order of reliability.

If several partitions know a source, the answer that comes first here is used.
"""

WHY_GIVEN_UP: Final[Mapping[str, str]] = {
    outcome.TIMEOUT: "it did not arrive in time",
    outcome.OVERFLOW: "more events waited behind it than may be buffered",
    outcome.JUMP: "the numbers of its source jumped over it",
    outcome.END: "the input ended",
}
TOPICS: Final = "look for it in events.late, events.gaps and the stream's output"
STANDBY: Final = "standby"
"""The field in the `/health` of a stage that is a standby; it says so in words."""

ASK_ANOTHER: Final = "this worker is a standby and has no events; ask the worker with the task"
LEDGERS: Final = "older notes are only in the topics of late events, gaps and dead letters"


def is_informative(fact: Fact) -> bool:
    """Return whether the partition has seen the source, or has a note about the event."""
    return bool(fact["streams"] or fact["decided"] or fact["alignment"])


def explain_event(
    asked: Question,
    facts: Iterable[Fact],
    silent: Sequence[str] = (),
    standbys: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the explanation of an event from the partitions' facts.

    `silent` has the stages that did not answer, with the reason. `standbys` has the stages of which
    this worker has no partition, because others have them all. In the result, `where` is the word
    for the stream about which most is known, and `said` has the sentences about all streams.
    """
    facts = sorted(facts, key=_rank)
    streams = sorted({stream for fact in facts for stream in _streams_of(fact)})
    answers = [_explain_stream(asked, stream, facts) for stream in streams]
    missing = [f"{who}: its facts are missing here" for who in silent]
    missing += [f"stage {name}: {ASK_ANOTHER}" for name in standbys]
    if not answers and standbys:
        return {"where": "unknown", "said": missing, "found": facts}
    if not answers:
        nobody = f"no partition that answered has seen source {asked.source}"
        hint = "check its name and stream, and whether this worker owns its partition"
        return {"where": "unknown", "said": [f"{nobody}: {hint}", *missing], "found": facts}
    surest = min(answers, key=lambda answer: WORDS.index(answer[0]))
    said = [line for _, lines in answers for line in lines]
    return {"where": surest[0], "said": [*said, *missing], "found": facts}


WORDS: Final = (
    *("held", "between", "late", "dead", "emitted", "awaited", "lost", "let_go"),
    *("not_come", "not_known", "unknown"),
)


def _rank(fact: Fact) -> tuple[int, str, int]:
    places = [FLOW.index(name) for name in fact["operators"] if name in FLOW]
    return min(places, default=len(FLOW)), fact["topic"], fact["partition"]


def _streams_of(fact: Fact) -> set[str]:
    aligned = fact["alignment"]
    decided = {decision["stream"] or "" for decision in fact["decided"]}
    return {*fact["streams"], *decided, *([] if aligned is None else [aligned["stream"]])}


class _Seen:
    """The known facts about the event in one stream, by operator."""

    def __init__(self, stream: str, facts: Sequence[Fact]) -> None:
        self.answers: dict[str, tuple[Fact, Mapping[str, Any]]] = {}
        self.aligned: tuple[Fact, Mapping[str, Any]] | None = None
        self.decided: list[tuple[Fact, Mapping[str, Any]]] = []
        for fact in facts:
            for operator, answer in fact["streams"].get(stream, {}).items():
                before = self.answers.get(operator)
                if before is None or _sureness(answer) < _sureness(before[1]):
                    self.answers[operator] = fact, answer
            aligned = fact["alignment"]
            if aligned is not None and aligned["stream"] == stream:
                self.aligned = fact, aligned
            self.decided += [
                (fact, each) for each in fact["decided"] if (each["stream"] or "") == stream
            ]

    def where(self, operator: str) -> str | None:
        found = self.answers.get(operator)
        return None if found is None else found[1].get("where")

    def last(self, *what: str, orders: bool = False) -> tuple[Fact, Mapping[str, Any]] | None:
        """Return the last note of one of these kinds in the order of the flow, or None.

        With `orders` only stages with REORDER or MERGE count, because later stages only see the
        mark of a late event.
        """
        found = [
            (fact, note)
            for fact, note in self.decided
            if note["what"] in what and (not orders or {REORDER, MERGE} & {*fact["operators"]})
        ]
        return found[-1] if found else None


def _sureness(answer: Mapping[str, Any]) -> int:
    return SURENESS.index(answer["where"]) if "where" in answer else len(SURENESS)


def _explain_stream(asked: Question, stream: str, facts: Sequence[Fact]) -> tuple[str, list[str]]:
    seen = _Seen(stream, facts)
    epochs = [answer["epoch"] for _, answer in seen.answers.values() if "epoch" in answer]
    epochs += [decision["epoch"] for _, decision in seen.decided]
    epoch = f"/{max(epochs)}" if epochs else ""
    where, lines = _explain_outcome(seen)
    about = f"{stream or 'a stream that cannot be read'}: {asked.source}{epoch}/{asked.seq}"
    lines = [f"{about}: {lines[0]}", *(f"  {line}" for line in lines[1:])]
    lines += [f"  {line}" for line in (*_describe_duplicates(seen), *_describe_clock(seen))]
    return where, lines


def _explain_outcome(seen: _Seen) -> tuple[str, list[str]]:
    if seen.where(MERGE) == location.HELD:
        return "held", _explain_held_by_merge(*seen.answers[MERGE])
    if seen.aligned is not None:
        return "held", _explain_aligned(*seen.aligned)
    if seen.where(REORDER) == location.HELD:
        return "held", _explain_held_by_reorder(*seen.answers[REORDER])
    decided = _explain_decided(seen)
    if decided is not None:
        return decided
    if seen.where(MERGE) == location.PASSED:
        return "emitted", _describe_emitted(seen)
    return _explain_absent(seen)


# -- buffered events -------------------------------------------------------------------------------


def _explain_held_by_merge(fact: Fact, answer: Mapping[str, Any]) -> list[str]:
    waits = f"buffered by merge {_at(fact)} for {_format_since(fact, answer['since'])}"
    error = format_duration(answer["error"])
    lines = [f"{waits}: its corrected timestamp is {answer['ref_time']}, ± {error}"]
    feeds = answer["waits_for"]
    lines += [
        f"waits for {feed['source']}: {sentences.why_awaited(feed)}" for feed in feeds[:NAMED]
    ]
    if len(feeds) > NAMED:
        lines.append(f"and for {len(feeds) - NAMED} other sources")
    if not feeds:
        lines.append("waits for other events of its arrival time, or for its timestamp to pass")
    return lines


def _explain_aligned(fact: Fact, aligned: Mapping[str, Any]) -> list[str]:
    partitions = ", ".join(aligned["waiting_for"])
    reads_inputs = REORDER in fact["operators"]
    held = f"buffered before {REORDER if reads_inputs else MERGE} {_at(fact)}"
    waits = (
        f"{held} for {_format_since(fact, aligned['since'])}: waits for progress of {partitions}"
    )
    if reads_inputs:
        return [
            waits,
            "a partition makes no progress if it has no leader, or lags behind the others",
        ]
    return [
        f"{waits} in the previous stage",
        "a partition makes no progress if its worker lags or has ended; check that all are owned",
    ]


def _explain_held_by_reorder(fact: Fact, answer: Mapping[str, Any]) -> list[str]:
    waits = f"buffered by reorder {_at(fact)} for {_format_since(fact, answer['since'])}"
    until = answer["until"]
    left = "" if until is None else f", {format_duration(until - fact['now'])} more at most"
    since = answer.get("missing_since")
    awaited = "" if since is None else f", awaited for {_format_since(fact, since)}"
    return [f"{waits}: {sentences.why_held(answer)}{awaited}{left}"]


# -- events that are not buffered ------------------------------------------------------------------


def _explain_decided(seen: _Seen) -> tuple[str, list[str]] | None:
    """Return the word and sentences for a late event or a dead letter.

    Returns None if there is no note about it.
    """
    late = seen.last(SENT_ON, TURNED_AWAY, orders=True)
    if late is not None:
        fact, note = late
        reason = note["reason"]
        why, helps = sentences.why_late(reason), sentences.what_helps(reason)
        merges = MERGE in fact["operators"]
        if note["what"] == SENT_ON and not merges and seen.where(MERGE) != location.NOT_COME:
            if seen.where(MERGE) == location.PASSED:
                return "emitted", [f"emitted in order: {why}, but merge was not beyond it"]
            return "late", [f"emitted by reorder {_at(fact)}, marked late: {why}", *helps]
        by = f", by {format_duration(note['by_ns'])}" if note["by_ns"] else ""
        went = "emitted, marked late" if note["what"] == SENT_ON else "not emitted, see events.late"
        ago = _format_since(fact, note["at_ns"])
        return "late", [f"late {_at(fact)}, {ago} ago: {why}{by}; {went}", *helps]
    dead = seen.last(DEAD)
    if dead is not None:
        fact, note = dead
        where = f"its record is {_place(note)}, and events.dead has the full reason"
        return "dead", [f"a dead letter {_at(fact)}, reason {note['reason']}: {where}"]
    return None


def _describe_emitted(seen: _Seen) -> list[str]:
    fact, answer = seen.answers[MERGE]
    mark = answer["watermark"]
    reached = (
        "" if mark is None else f"; the watermark is {_format_since(fact, mark)} behind the clock"
    )
    return [
        f"emitted by merge {_at(fact)}; no stored note says that it was late{reached}",
        f"the cause of its wait is not stored, only its end, in the header `at`; {LEDGERS}",
    ]


def _explain_absent(seen: _Seen) -> tuple[str, list[str]]:
    """Return the word and sentences for an event that is not buffered and has no note."""
    found = seen.answers.get(REORDER)
    if found is None:
        return _explain_by_merge(seen)
    fact, answer = found
    match answer.get("where"):
        case "awaited":
            left = f"{format_duration(answer['until'] - fact['now'])} more at most"
            since = _format_since(fact, answer["missing_since"])
            return "awaited", [f"has not arrived; awaited {_at(fact)} for {since}, {left}"]
        case "lost":
            ago = _format_since(fact, answer["given_up"])
            given_up = seen.last(GIVEN_UP)
            why = "" if given_up is None else f": {WHY_GIVEN_UP[given_up[1]['reason']]}"
            lost = format_gap(answer["missing"])
            return "lost", [f"has not arrived; given up {_at(fact)} {ago} ago with {lost}{why}"]
        case "not_come":
            highest = f"the highest of its source {_at(fact)} is {answer.get('highest', '-')}"
            if "waiting" in answer:
                highest = f"{answer['waiting']} events of its source wait {_at(fact)} unnumbered"
            lag = f"; {fact['lag']} records are not yet read" if fact["lag"] else ""
            return "not_come", [f"has not arrived: {highest}{lag}"]
        case "passed":
            return _explain_reordered(seen, fact)
        case "before_start":
            start = f"its source was assumed to start at {answer['start']}"
            return "not_known", [f"below the start: {start}; if it arrived, it is in events.late"]
        case "forgotten":
            below = f"below number {answer['floor']}, emitted and lost are no longer distinguished"
            return "not_known", [f"{below}; {TOPICS}"]
    return "not_known", [
        f"its epoch is over ({answer['epoch_in_force']} is current), with no facts stored; {TOPICS}"
    ]


def _explain_reordered(seen: _Seen, fact: Fact) -> tuple[str, list[str]]:
    merge = seen.answers.get(MERGE)
    if merge is None:
        return "let_go", [f"emitted by reorder {_at(fact)}; this worker does not merge its stream"]
    if merge[0] is not fact and merge[1].get("where") == location.NOT_COME:
        lag = f"{merge[0]['lag']} records are not yet read there"
        if not merge[0]["lag"]:
            lag = "reorder has not committed its checkpoint yet"
        return "between", [f"emitted by reorder, not read by merge {_at(merge[0])} yet: {lag}"]
    return "not_known", [
        f"reorder has passed it, but merge has not seen it: it was late or a dead letter; {LEDGERS}"
    ]


def _explain_by_merge(seen: _Seen) -> tuple[str, list[str]]:
    found = seen.answers.get(MERGE)
    if found is None:
        return "not_known", ["its source is known, but no facts about the event are stored"]
    fact, answer = found
    if answer["where"] == location.LOST:
        lost = format_gap(answer["missing"])
        return "lost", [f"{lost} of its source never arrived at merge {_at(fact)}"]
    if answer["where"] == location.NOT_COME:
        newest = f"the newest number of its source {_at(fact)} is {answer['newest']}"
        return "not_come", [f"has not arrived at merge: {newest}; no stage with reorder answered"]
    return "not_known", [f"its epoch is over, and no facts about it are stored {_at(fact)}"]


def _place(note: Mapping[str, Any]) -> str:
    log = note.get("log")
    return f"at offset {note['offset']}{f' of {log}' if log else ''}"


def _describe_duplicates(seen: _Seen) -> list[str]:
    copies = [each for each in seen.decided if each[1]["what"] in {COPY, DIFFERS}]
    if not copies:
        return []
    fact, note = copies[-1]
    differs = ", and differs from the first" if note["what"] == DIFFERS else ""
    times = "once more" if len(copies) == 1 else f"{len(copies)} more times"
    last = f"last {_format_since(fact, note['at_ns'])} ago {_place(note)}"
    return [f"arrived {times}, {last}{differs}: a duplicate"]


def _describe_clock(seen: _Seen) -> list[str]:
    found = seen.answers.get(CLOCK)
    if found is None:
        return []
    clock = found[1]
    return [f"the clock of its source is {clock['state']} now: {format_correction(clock)}"]


# -- words -----------------------------------------------------------------------------------------


def _at(fact: Fact) -> str:
    return f"in {fact['topic']}/{fact['partition']}"


def _format_since(fact: Fact, at_ns: int) -> str:
    return format_duration(fact["now"] - at_ns)
