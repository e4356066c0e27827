"""The spans of a traced event, as values: what is exported, before any exporter.

All spans of an event are one trace, though the stages that make them know nothing of each other:
its id, and the id of each span, follow from the event's identity. The stage that merges makes the
root; its children beside each other, from the reference time on without a hole, are the budget:

    event       reference time -> committed in the ordered topic
      transit   reference time -> arrival           the source's way to the broker
      unread    arrival -> read by the stage        what the stage is behind its input
      reorder   read -> let go
      clock     at that instant, with the offset and its error
      merge     let go by REORDER -> decided
      deliver   decided -> committed                what is left is the machinery's own
      window    decided -> emitted, one for each query; it may end behind the root

Where REORDER is a stage of its own, `reorder` begins at the arrival, and `unread` is between it and
`merge`: until MERGE's stage has read the event. What REORDER's stage was behind, and its delivery,
are children of `reorder`: they happen meanwhile, and so are no part of the sum.

Times of arrivals and decisions are the brokers' clock, the reference time is the source's, mended;
reading and commit are this machine's. A stage that is behind decides at instants that are over: a
step that would end before it began has no length, and the next begins where it began.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from sinks.otlp.budget import FirstResult, Steps, Travelled
from sinks.otlp.sampling import Identity

EVENT: Final = "event"
TRANSIT: Final = "transit"
UNREAD: Final = "unread"
REORDER: Final = "reorder"
CLOCK: Final = "clock"
MERGE: Final = "merge"
DELIVER: Final = "deliver"
BUDGET: Final = (TRANSIT, UNREAD, REORDER, CLOCK, MERGE, DELIVER)

Word = str | int | bool


@dataclass(frozen=True, slots=True)
class Span:
    """`parent_id` 0: the root."""

    name: str
    trace_id: int
    span_id: int
    parent_id: int
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Word] = field(default_factory=dict)


def spans(application: str, steps: Steps, committed_ns: int) -> Iterator[list[Span]]:
    """Those of each event."""
    for one in steps.travelled:
        yield _travel(application, one, committed_ns)
    for result in steps.results:
        yield [_result_span(application, result)]


def _travel(application: str, one: Travelled, committed_ns: int) -> list[Span]:
    ids = _Ids(application, one.who)
    came_ns = max(one.ref_time_ns, one.arrival_ns)
    read_ns = max(came_ns, one.read_ns or 0)
    is_whole = one.reorders and one.merged_ns is not None
    begun_ns = read_ns if is_whole else came_ns  # by REORDER
    reordered_ns = max(begun_ns, one.reordered_ns or 0)
    found = []
    if one.reorders:
        found.append(ids.span(TRANSIT, one.ref_time_ns, came_ns))
        if one.read_ns is not None:
            found.append(ids.span(UNREAD, came_ns, read_ns, parent=EVENT if is_whole else REORDER))
        found.append(ids.span(REORDER, begun_ns, reordered_ns))
        correction = {
            "inorder.offset_ns": one.ref_time_ns - one.ts_ns,
            "inorder.error_ns": one.error_ns,
        }
        found.append(ids.span(CLOCK, reordered_ns, reordered_ns, correction))
    if one.merged_ns is None:
        decided_ns = max(reordered_ns, read_ns)
        delivered_ns = max(decided_ns, committed_ns)
        found.append(ids.span(DELIVER, decided_ns, delivered_ns, parent=REORDER))
        return found
    taken_ns = max(reordered_ns, read_ns)  # by MERGE
    merged_ns = max(taken_ns, one.merged_ns)
    delivered_ns = max(merged_ns, committed_ns)
    if one.reordered_ns is not None:
        if not one.reorders:
            found.append(ids.span(UNREAD, reordered_ns, taken_ns))
        found.append(ids.span(MERGE, taken_ns, merged_ns))
    found.append(ids.span(DELIVER, merged_ns, delivered_ns))
    found.append(ids.root(one, delivered_ns))
    return found


def _result_span(application: str, result: FirstResult) -> Span:
    ids = _Ids(application, result.who)
    end_ns = max(result.merged_ns, result.at_ns)
    name = f"{result.found_by}/{result.query}"
    return ids.span(
        *(result.found_by, result.merged_ns, end_ns, {"inorder.query": result.query}), key=name
    )


class _Ids:
    """Ids of one event's trace."""

    def __init__(self, application: str, who: Identity) -> None:
        self._who = who
        words = (application, *map(str, who))
        self._digest = blake2b("\n".join(words).encode(), digest_size=16)
        self._trace_id = int.from_bytes(self._digest.digest(), "big") or 1

    def span(
        self,
        name: str,
        start_ns: int,
        end_ns: int,
        attributes: Mapping[str, Word] | None = None,
        *,
        parent: str = EVENT,
        key: str = "",
    ) -> Span:
        key = key or (name if parent == EVENT else f"{parent}/{name}")
        ids = self._trace_id, self._id(key), self._id(parent)
        return Span(name, *ids, start_ns, end_ns, attributes or {})

    def root(self, one: Travelled, end_ns: int) -> Span:
        stream, source, epoch, seq = self._who
        attributes: dict[str, Word] = {
            "inorder.stream": stream,
            "inorder.source": source,
            "inorder.epoch": epoch,
            "inorder.seq": seq,
            "inorder.type": one.type,
            "inorder.error_ns": one.error_ns,
        }
        if one.late:
            attributes["inorder.late"] = one.late
        return Span(EVENT, self._trace_id, self._id(EVENT), 0, one.ref_time_ns, end_ns, attributes)

    def _id(self, key: str) -> int:
        digest = self._digest.copy()
        digest.update(b"\n\n" + key.encode())
        return int.from_bytes(digest.digest()[:8], "big") or 1
