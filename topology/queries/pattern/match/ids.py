"""Makes the id of a match from its content, so that the order of arrival does not affect it.

A late event that changes the id of a match causes a retract and an emit. The id depends on:

* MATCHES ONE and BEST: the start event. There is one result for each start, whatever its other
  events are.
* MAXIMAL where all groups are free: the *skeleton*. It has the end event, all single events, and
  the last event of each group directly before another group. Each absent optional part adds a mark.
  So a late event that joins a group updates the match.
* AS SETS: the end event. The set of its matches is one result, whatever events are added to it.
* Otherwise, and with UNCERTAIN POSSIBLE: all events, each with its component. Another set of events
  is another result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from topology.base.event import digits
from topology.queries.pattern.match.match import Match
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.tree.free_groups import is_free
from topology.queries.pattern.tree.normal_form import Alternative, NormalForm
from topology.queries.pattern.tree.syntax import FROM_START

ABSENT: Final = b"-"

NOTHING: Final = 0
LAST: Final = 1
EVERY: Final = 2


class MatchIds:
    """A maker of the ids of a query's matches.

    Cost: the length of the id, which is O(components), or O(events) if all events count.
    """

    def __init__(self, form: NormalForm) -> None:
        by_content = form.query.uncertain == "possible"
        self._is_set = form.query.sets
        self._is_one = form.query.matches in FROM_START and not by_content
        maximal = form.query.matches == "maximal" and not by_content
        self._skeletons = [_labels_of(each) if maximal else None for each in form.alternatives]

    def of(self, match: Match) -> bytes:
        if self._is_one:
            return identity_bytes(match.first)
        if self._is_set:
            return identity_bytes(match.last)
        parts = [b"%d" % match.alternative]
        skeleton = self._skeletons[match.alternative]
        if skeleton is None:
            for j, entries in enumerate(match.bound):
                parts.append(b"/%d" % j)
                parts += map(identity_bytes, entries)
            return b"".join(parts)
        parts.append(identity_bytes(match.last))
        for (place, part), entries in zip(skeleton, match.bound, strict=True):
            if not entries:
                parts.append(place + ABSENT)
            elif part != NOTHING:
                parts.append(place)
                parts += (
                    (identity_bytes(entries[-1]),) if part == LAST else map(identity_bytes, entries)
                )
        return b"".join(parts)


def _labels_of(alternative: Alternative) -> list[tuple[bytes, int]] | None:
    """Return for each component its label and which of its events count; None: all events count."""
    components = alternative.components
    if not alternative.is_linear or not all(is_free(alternative, each) for each in components):
        return None
    found = []
    for j, component in enumerate(components):
        before_group = j + 1 < len(components) and components[j + 1].is_group
        counts = EVERY if not component.is_group else LAST if before_group else NOTHING
        found.append((b"/%d" % j, counts))
    return found


def identity_bytes(entry: Entry) -> bytes:
    """Return the entry's identity as bytes that may be joined unambiguously; they are cached."""
    if not entry.spelled:
        event = entry.event
        number = digits(event.epoch), digits(event.seq)
        entry.spelled = b"\0%s\0%s\0%s" % (event.source.encode(), *number)
    return entry.spelled


def key_bytes(partition: Sequence[Any]) -> bytes:
    """Return the partition key as bytes; equal values, like 1 and 1.0, give equal bytes."""
    return "\0".join(_format_value(value) for value in partition).encode()


def _format_value(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"{type(value).__name__}:{value}"
