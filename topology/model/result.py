"""What windows, patterns and joins find: values that are corrected until they are final.

A result is known by `id`, a digest of its content alone (query, key and start of a window;
query and anchor of a match; query, window and events of a joined row), never of arrival. Its
revisions count from 0 without a hole: `emit` shows it, or shows it again after a `retract`;
`update` replaces it. A reader that keeps the highest revision of each id holds the latest truth.
`final`: no further revision will come. Where the query asks for it, a result shown before it was
final is updated once more, with the same content and `final` set.
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
"""From an operator after `Operator.seal`. Only the end of the input says so, or, of what is as sure
as ever, that it is final."""
SURE: Final = (CONFIRMED, UNSETTLED)
LEAVES_AS: Final = {UNPROVEN: UNCERTAIN, UNSETTLED: CONFIRMED}
"""What they are when they leave a stage, not as final."""

ID_BYTES: Final = 16


@dataclass(slots=True)
class Result:
    """`at_ns`: when it was decided. `values` are plain JSON values by name."""

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
    """A window [start_ns, end_ns) of `key` (None: the query has none). `low` and `high`
    bound the values that the true times allow, `expected` is their mean; where times are sure all
    three equal `values`."""

    key: Any = None
    low: dict[str, Any] = field(default_factory=dict)
    high: dict[str, Any] = field(default_factory=dict)
    expected: dict[str, Any] = field(default_factory=dict)


class Member(NamedTuple):
    """An event of a match, by coordinates."""

    alias: str
    source: str
    epoch: int
    seq: int
    ref_time_ns: int


@dataclass(slots=True)
class MatchResult(Result):
    """`start_ns` and `end_ns` are the times of its first and last event, `members` in the
    order of time. `key`: what its events agree on, if the query says so."""

    members: list[Member] = field(default_factory=list)
    key: Any = None


@dataclass(slots=True)
class DetectorResult(MatchResult):
    """What a user's detector reports: a match whose `members` it named, or the event at which it
    reported, and whose `key` is the query's."""


class MemberRange(NamedTuple):
    """All events that may be bound to `alias`, from the `first` to the `last` in the order of time,
    `size` of them."""

    alias: str
    size: int
    first: Member
    last: Member


@dataclass(slots=True)
class MatchSetResult(Result):
    """All matches that end with one event: `count` of them, each a choice out of the `ranges`, one
    for each component. `joined`: what an update has brought into them. `values` is empty: columns
    are of single matches. The rest as in `MatchResult`; `start_ns` is the first event of any."""

    count: int = 0
    ranges: list[MemberRange] = field(default_factory=list)
    joined: list[MemberRange] = field(default_factory=list)
    key: Any = None


class Partner(NamedTuple):
    """An event of a joined row, by coordinates."""

    alias: str
    stream: str
    source: str
    epoch: int
    seq: int
    ref_time_ns: int


@dataclass(slots=True)
class JoinResult(Result):
    """A row: `partners` in the order of the query's sides, a side without a partner left out.
    `start_ns` and `end_ns` are the window's; of a join by interval, the times of the first and the
    last partner. `probability`: that they belong together, by the errors of their times; it ranks
    rows, it is no frequency. `stream` is that of the first side."""

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
    """A query has more to say about the event `member` than its LIMIT or `max_rows`, or looking for
    it took too many steps: the `shown` results are not all. There is one for each such event; and
    one for each result that was too large (`topology.flow.bounded`), without a member if it is a
    window's. `found_by`: as of a result."""

    at_ns: int
    stream: str
    query: str
    member: Member | None
    shown: int
    found_by: str = "pattern"


Finding = Result | Overflow


def result_id(*parts: bytes) -> str:
    """A digest of the parts, each set apart from the next."""
    return digest_of(b"".join([framed(part) for part in parts]))


def digest_of(framed_parts: bytes) -> str:
    return blake2b(framed_parts, digest_size=ID_BYTES).hexdigest()


class ResultIds:
    """Ids of results whose first parts, `begun`, are the same. Parts are framed."""

    def __init__(self, begun: bytes) -> None:
        self._begun = blake2b(begun, digest_size=ID_BYTES)

    def of(self, rest: bytes) -> str:
        """What `result_id` would say of all parts."""
        digest = self._begun.copy()
        digest.update(rest)
        return digest.hexdigest()


def framed(part: bytes) -> bytes:
    """Set apart from the next."""
    return len(part).to_bytes(8, "big") + part
