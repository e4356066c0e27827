"""Defines the results of windows, patterns and joins, which are corrected until they are final.

A result is identified by `id`, a digest of its content alone, never of arrival:

* query, key and start of a window;
* query and anchor of a match;
* query, window and events of a joined row.

Its revisions count from 0 without a gap. `emit` announces it, also again after a `retract`;
`update` replaces it. A reader that keeps the highest revision of each id has the current results.

`final` means that no further revision will come. If the query asks for it, a result that was
emitted earlier is updated once more, with the same content and `final` set.
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

An unproven result is decided only because the input ended. An unsettled one is as certain as
before, and is final only because the input ended.
"""
SURE: Final = (CONFIRMED, UNSETTLED)
LEAVES_AS: Final = {UNPROVEN: UNCERTAIN, UNSETTLED: CONFIRMED}
"""The confidence with which a stage emits such results. It does not emit them as final."""

ID_BYTES: Final = 16


@dataclass(slots=True)
class Result:
    """A result of a query.

    `at_ns` is when it was decided. `values` are plain JSON values by name.
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
        """The operator that finds results of this kind."""
        return FOUND_BY[type(self)]


@dataclass(slots=True)
class WindowResult(Result):
    """A result of a window [start_ns, end_ns) of `key`.

    `key` is None if the query has none. `low` and `high` are the least and greatest values that the
    possible event times allow, and `expected` is their mean. If times are certain, all three equal
    `values`.
    """

    key: Any = None
    low: dict[str, Any] = field(default_factory=dict)
    high: dict[str, Any] = field(default_factory=dict)
    expected: dict[str, Any] = field(default_factory=dict)


class Member(NamedTuple):
    """An event of a match, named by its coordinates."""

    alias: str
    source: str
    epoch: int
    seq: int
    ref_time_ns: int


@dataclass(slots=True)
class MatchResult(Result):
    """A match of a pattern.

    `start_ns` and `end_ns` are the times of its first and last event, and `members` are in the
    order of time. `key` is the value on which its events agree, if the query has one.
    """

    members: list[Member] = field(default_factory=list)
    key: Any = None


@dataclass(slots=True)
class DetectorResult(MatchResult):
    """A match that a user's detector reports.

    `members` are the events that the detector named, or else the event at which it reported. `key`
    is the value of the query's key.
    """


class MemberRange(NamedTuple):
    """The events that may be bound to `alias` in a set of matches.

    There are `size` of them, from the `first` to the `last` in the order of time.
    """

    alias: str
    size: int
    first: Member
    last: Member


@dataclass(slots=True)
class MatchSetResult(Result):
    """All matches that end with one event.

    There are `count` matches, each of which takes one event of each of the `ranges`. There is one
    range for each component. `joined` has the ranges that an update has added. `values` is empty,
    because columns belong to single matches. `start_ns` is the time of the first event of any
    match. The other fields are as in `MatchResult`.
    """

    count: int = 0
    ranges: list[MemberRange] = field(default_factory=list)
    joined: list[MemberRange] = field(default_factory=list)
    key: Any = None


class Partner(NamedTuple):
    """An event of a joined row, named by its coordinates."""

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
    `start_ns` and `end_ns` are the window's. In a join by interval, they are the times of the first
    and the last partner. `stream` is that of the first side.

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
    """A report that a query has more results about the event `member` than the `shown` ones.

    The query has more results than its LIMIT or `max_rows`, or the search took too many steps.
    There is one report for each such event. There is also one for each result that was too large
    (`topology.flow.bounded`), without a member if it is a window's. `found_by` is as in a result.
    """

    at_ns: int
    stream: str
    query: str
    member: Member | None
    shown: int
    found_by: str = "pattern"


Finding = Result | Overflow


def result_id(*parts: bytes) -> str:
    """Return a digest of the parts; each is framed, so that other parts give another digest."""
    return digest_of(b"".join([framed(part) for part in parts]))


def digest_of(framed_parts: bytes) -> str:
    return blake2b(framed_parts, digest_size=ID_BYTES).hexdigest()


class ResultIds:
    """A maker of the ids of results that share their first parts, `begun`. All parts are framed."""

    def __init__(self, begun: bytes) -> None:
        self._begun = blake2b(begun, digest_size=ID_BYTES)

    def of(self, rest: bytes) -> str:
        """Return the `result_id` of the first parts and `rest`."""
        digest = self._begun.copy()
        digest.update(rest)
        return digest.hexdigest()


def framed(part: bytes) -> bytes:
    """Return the part preceded by its length, which separates it from the next."""
    return len(part).to_bytes(8, "big") + part
