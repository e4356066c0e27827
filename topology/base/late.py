"""Lists the causes for which an event can be late.

An event is late if later events were emitted before it arrived. The order is that of all sources.
For `overtaken` it is the order of the event's own source, and MERGE may not have emitted events of
that time yet.

In each operator one function decides whether an event is late (`Cause.decided_in`), and names the
*cause* by one word. In MERGE, two more functions do so. `Passage.find_late_cause_of_filled`
clears or keeps the cause of an event whose sequence number REORDER had given up. `Merge._make_room`
gives events up when the queues are full; they are late by `merge_full`.

The way through MERGE is `Merge._take`, `Intake.take`, `Passage.judge`, `Queues.buffer_late`, and at
the end of the instant `Merge._pass_time` and `Passage.emit_late`.

This table is the source of all texts that show a cause:

* the header `late`, and `reason` of a record on `events.late`;
* the label `reason` of `inorder_records_late_total`;
* `late_by_cause` in the summary of a replay and in `explain`, which has the causes of MERGE;
* the operator's page, and docs/concepts/late.md.

Only `inorder match` uses the cause `below_frontier`, for an event that PATTERN finds EXPIRED
(`topology.queries.pattern.run.admit`).

With `reorder.late: pass` a late event is emitted, with its cause in `Event.late`. Otherwise, or if
it may be a duplicate (`MAY_BE_COPY`), it becomes a `Late` report.

WINDOW, JOIN, DETECTOR and PATTERN have no causes, because a late event corrects their results. They
ignore an event that is older than their final results, and only count it in a metric: `late` in
PATTERN, and `expired` in the others. `explain` does not report it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

GAP = "gap"
OVERTAKEN = "overtaken"
BEYOND_MEMORY = "beyond_memory"
BEFORE_START = "before_start"
OLD_EPOCH = "old_epoch"
CONFLICT = "conflict"
MERGE_WAIT = "merge_wait"
MERGE_IDLE = "merge_idle"
MERGE_NEW = "merge_new"
MERGE_BEHIND = "merge_behind"
MERGE_PAUSE = "merge_pause"
SET_BACK = "set_back"
MERGE_FULL = "merge_full"
BELOW_FRONTIER = "below_frontier"


class Cause(NamedTuple):
    """A row of the table: one cause.

    Attributes:
        decided_in: The dotted name of the function that decides. It decides by saved state.
            REORDER saves the state of a source as the row `buffer/<source>`, and MERGE as the row
            `source/<source>`. The state of the whole stream is in MERGE's own row (`Passage`).
        because: The end of the sentence "the event is late because ...".
        remedy: The setting that helps, or another measure.
    """

    decided_in: str
    because: str
    remedy: str


_BY_NUMBER: Final = "topology.order.reorder.source.NumberedBuffer._past"
_AT_MERGE: Final = "topology.order.merge.passage.Passage.judge"

CAUSES: Final[Mapping[str, Cause]] = {
    GAP: Cause(
        _BY_NUMBER,
        "reorder had given up its number, or had begun the next epoch, and later events had been"
        " emitted when it arrived",
        "a larger `reorder.max_wait`, or a smaller `reorder.miss_target`",
    ),
    OVERTAKEN: Cause(
        "topology.order.reorder.time_buffer.TimeBuffer._hold",
        "a later event of its source had been emitted when it arrived (`rule: time`)",
        "a larger `reorder.max_wait`",
    ),
    MERGE_WAIT: Cause(
        _AT_MERGE,
        "merge waited for its source as long as its delays suggested, and that was too short",
        "a larger `merge.max_wait`, or a smaller `merge.miss_target`",
    ),
    MERGE_IDLE: Cause(
        _AT_MERGE,
        "its source had been silent for `idle_after` and longer than usual, or had sent its"
        " end-of-stream marker",
        "a longer `idle_after`, or heartbeats",
    ),
    MERGE_NEW: Cause(
        _AT_MERGE,
        "its source was new or had been forgotten, and other sources were already ahead",
        "`expected_sources`, with a `merge.max_wait` as long as its first event may take;"
        " or a larger `reorder.max_sources`",
    ),
    MERGE_BEHIND: Cause(
        _AT_MERGE,
        "its source is catching up: the event before it was late too",
        "the remedy for the first late event of its source",
    ),
    MERGE_PAUSE: Cause(
        _AT_MERGE,
        "the whole log had paused, and other sources resumed first, or the pause was longer than"
        " `quiet_after`",
        "a `quiet_after` above the longest outage",
    ),
    SET_BACK: Cause(
        _AT_MERGE,
        "its time is below the newest of its source, in sequence, and its place had passed",
        "a `clock.max_set_back` as large as the falls of its source, which `inorder explain` shows",
    ),
    MERGE_FULL: Cause(
        _AT_MERGE,
        "`max_queued` or `max_held_bytes` was reached, so events had to be emitted out of order",
        "a larger `merge.max_queued` or `reorder.max_held_bytes`",
    ),
    BEYOND_MEMORY: Cause(
        _BY_NUMBER,
        "its number is older than the given-up numbers that reorder remembers; it may be a"
        " duplicate",
        "a larger `reorder.gap_memory`",
    ),
    BEFORE_START: Cause(
        _BY_NUMBER,
        "its number is below the first one of its source; it may be a duplicate",
        "`reorder.start: zero` if sources count from 0, or a larger `reorder.max_wait`",
    ),
    OLD_EPOCH: Cause(
        _BY_NUMBER,
        "its epoch had ended more than `max_wait` ago, with a smaller last number, or a later epoch"
        " had ended too; it may be a duplicate",
        "one producer for each source, and a new epoch only after a restart",
    ),
    CONFLICT: Cause(
        "topology.order.reorder.trial.Trials.decide",
        "another event of its source had its number, with another timestamp or payload, and no new"
        " epoch began; it may be a duplicate",
        "one producer for each source, and an `epoch` that rises at each restart",
    ),
    BELOW_FRONTIER: Cause(
        "topology.queries.pattern.run.admit.Admission.refusal",
        "a later event had arrived before it, and `inorder match` corrects no results",
        "`inorder match --correct`, or `inorder replay`, which puts events in order",
    ),
}
"""The causes by name. If several apply, the deciding function returns the first of them."""

MAY_BE_COPY = frozenset({BEYOND_MEMORY, BEFORE_START, OLD_EPOCH, CONFLICT})
"""The causes of late events about which no operator remembers whether they were emitted.

Such an event may be a duplicate of an emitted one, so it is not emitted under any policy.
"""
