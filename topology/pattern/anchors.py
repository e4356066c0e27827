"""What a match is known by: its anchor, made of content alone, never of arrival (patterns.md 4.5).

* MATCHES ONE: the start event. Whatever the walk from it takes, it is one result.
* MAXIMAL where all groups are free: the *skeleton*: the end event, all singles, the last
  event of each group that a group follows directly, and a mark for each optional one not taken.
  So a late event that joins a group updates the match.
* Otherwise all events, each with its component: another set is another result.
"""

from __future__ import annotations

from topology.pattern.entry import Entry
from topology.pattern.free import is_free
from topology.pattern.match import Match
from topology.pattern.normal_form import Alternative, NormalForm

ABSENT = b"-"


def anchor_of(form: NormalForm, match: Match) -> bytes:
    query = form.query
    if query.matches == "one":
        return _identity(match.first)
    alternative = form.alternatives[match.alternative]
    if query.matches == "maximal" and has_skeleton(alternative):
        return _skeleton(alternative, match)
    parts = [b"%d" % match.alternative]
    for j, entries in enumerate(match.bound):
        parts.append(b"/%d" % j)
        parts += [_identity(entry) for entry in entries]
    return b"".join(parts)


def has_skeleton(alternative: Alternative) -> bool:
    return alternative.is_linear and all(
        is_free(alternative, component) for component in alternative.components
    )


def _skeleton(alternative: Alternative, match: Match) -> bytes:
    parts = [b"%d" % match.alternative, _identity(match.last)]
    components = alternative.components
    for j, component in enumerate(components):
        entries = match.bound[j]
        if not entries:
            parts.append(b"/%d" % j + ABSENT)
        elif not component.is_group:
            parts.append(b"/%d" % j + _identity(entries[0]))
        elif j + 1 < len(components) and components[j + 1].is_group:
            parts.append(b"/%d" % j + _identity(entries[-1]))
    return b"".join(parts)


def _identity(entry: Entry) -> bytes:
    event = entry.event
    return b"\0%s\0%d\0%d" % (event.source.encode(), event.epoch, event.seq)
