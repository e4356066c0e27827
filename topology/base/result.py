"""Defines the results of queries, which are corrected until they are final.

A result is identified by `id`. This is a digest of the following content, which does not depend on
the order of arrival:

* query, key and start of a window;
* query and anchor of a match;
* query, window and events of a joined row.

Its revisions count from 0 without a gap. `emit` announces a result, also after a `retract`;
`update` replaces it. A reader that keeps the highest revision of each id has the current results.

`final` means that there will be no further revision. If the query asks for it, a result that is not
final when emitted is updated once more, with the same content and `final` set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, NamedTuple

EMIT: Final = "emit"
UPDATE: Final = "update"
RETRACT: Final = "retract"

CONFIRMED: Final = "confirmed"
UNCERTAIN: Final = "uncertain"

UNPROVEN: Final = "unproven"
UNSETTLED: Final = "unsettled"
"""The two kinds of confidence that operators use only after `Operator.seal`.

An unproven result was decided only because the input ended. An unsettled result is certain, but is
final only because the input ended.
"""
SURE: Final = (CONFIRMED, UNSETTLED)
LEAVES_AS: Final = {UNPROVEN: UNCERTAIN, UNSETTLED: CONFIRMED}
"""The confidence with which a stage emits results of these kinds; it marks none as final."""

ID_BYTES: Final = 16


@dataclass(slots=True)
class Result:
    """A result of a query.

    `at_ns` is when the result was decided. `values` are plain JSON values by name.
    """

    at_ns: int
    stream: str
    query: str
    id: str
    op: str
    revision: int
    final: bool
    confidence: str
    start_ns: int
    end_ns: int
    values: dict[str, Any]

    @property
    def found_by(self) -> str:
        """The name of the operator that finds results of this kind."""
        return FOUND_BY[type(self)]


@dataclass(slots=True)
class WindowResult(Result):
    """The result of a window [start_ns, end_ns) for one key.

    `key` is None if the query has no key. `low` and `high` are the smallest and largest values that
    the possible event times allow, and `expected` is their mean. If the event times are certain,
    all three equal `values`.
    """

    key: Any = None
    low: dict[str, Any] = field(default_factory=dict)
    high: dict[str, Any] = field(default_factory=dict)
    expected: dict[str, Any] = field(default_factory=dict)


class Member(NamedTuple):
    """An event of a match, identified by its source, epoch and sequence number."""

    alias: str
    source: str
    epoch: int
    seq: int
    ref_time_ns: int


@dataclass(slots=True)
class MatchResult(Result):
    """A match of a pattern.

    `start_ns` and `end_ns` are the times of its first and last event, and `members` are in the
    order of time. `key` is the value that its events share, if the query has a key.
    """

    members: list[Member] = field(default_factory=list)
    key: Any = None


@dataclass(slots=True)
class DetectorResult(MatchResult):
    """A match that a user's detector has reported.

    `members` are the events that the detector named, or else the event at which it reported the
    match. `key` is the value of the query's key.
    """


class MemberRange(NamedTuple):
    """The events that may be bound to `alias` in a set of matches.

    There are `size` events, from the `first` to the `last` in the order of time.
    """

    alias: str
    size: int
    first: Member
    last: Member


@dataclass(slots=True)
class MatchSetResult(Result):
    """All matches that end with one event.

    There are `count` matches. Each takes one event from each of the `ranges`, and there is one
    range for each component. `joined` has the ranges that an update has added. `values` is empty,
    because columns belong to single matches. `start_ns` is the time of the earliest event of any
    match. The other fields are as in `MatchResult`.
    """

    count: int = 0
    ranges: list[MemberRange] = field(default_factory=list)
    joined: list[MemberRange] = field(default_factory=list)
    key: Any = None


class Partner(NamedTuple):
    """An event of a joined row, identified by its stream, source, epoch and sequence number."""

    alias: str
    stream: str
    source: str
    epoch: int
    seq: int
    ref_time_ns: int


@dataclass(slots=True)
class JoinResult(Result):
    """A row of a join.

    `partners` are in the order of the query's sides. A side without a partner is left out.
    `start_ns` and `end_ns` are those of the window. In a join by interval, they are the times of
    the first and the last partner. `stream` is the stream of the first side.

    `probability` is the probability that the partners belong together, computed from the errors of
    their times. Use it to rank rows; it is not a frequency.
    """

    partners: list[Partner] = field(default_factory=list)
    key: Any = None
    probability: float = 1.0


FOUND_BY: Final[Mapping[type[Result], str]] = {
    WindowResult: "window",
    MatchResult: "pattern",
    MatchSetResult: "pattern",
    DetectorResult: "detector",
    JoinResult: "join",
}


@dataclass(slots=True)
class Overflow:
    """A report that results of a query were left out.

    The query has more results about the event `member` than the `shown` ones. It has reached its
    LIMIT or `max_rows`, or the search took too many steps. There is one report for each such event.
    There is also one for each result that was too large (`topology.stage.bounded`); `member` is
    then None if it is the result of a window. `found_by` is the operator, as in a result.
    """

    at_ns: int
    stream: str
    query: str
    member: Member | None
    shown: int
    found_by: str = "pattern"


Finding = Result | Overflow


def result_id(*parts: bytes) -> str:
    """Return a digest of the parts; the length of each part is included, which separates them."""
    return digest_of(b"".join([frame(part) for part in parts]))


def digest_of(framed_parts: bytes) -> str:
    return blake2b(framed_parts, digest_size=ID_BYTES).hexdigest()


class ResultIds:
    """A maker of ids for results with the same first parts, `begun`; all parts must be framed."""

    def __init__(self, begun: bytes) -> None:
        self._begun = blake2b(begun, digest_size=ID_BYTES)

    def of(self, rest: bytes) -> str:
        """Return the `result_id` of the first parts and the further parts in `rest`."""
        digest = self._begun.copy()
        digest.update(rest)
        return digest.hexdigest()


def frame(part: bytes) -> bytes:
    """Return the part with its length before it, which separates it from the next part."""
    return len(part).to_bytes(8, "big") + part
