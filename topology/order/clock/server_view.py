"""Tracks the clock of one source by its rounds with one sync server.

The rounds accepted so far form the *belief*: their bounds within `sync_window` and the polygon of
the lines that these allow. A new round

* joins the belief if it agrees, that is, if the polygon is not empty with its bounds;
* is false, a *falseticker*, if it contradicts the belief and is not newer, by the server's clock,
  than the newest round of the belief. It is counted and dropped;
* is *doubted* if it contradicts the belief and is newer. The view is then `suspect`: either this
  round is false or the clock has jumped.

The next round that agrees confirms the belief. The doubted rounds that are not newer than this one
then join the belief if they fit, and are falsetickers if they do not. The clock has *jumped* if at
least three doubted rounds agree with one another. They must be more than half of the doubted
(Marzullo), or else the newest three. They become the new belief, and the old bounds are dropped. A
belief of fewer than `GOOD_ROUNDS` rounds is not an answer yet, and a larger number of rounds that
agree replaces it. That is not a jump, because the old belief was false.

A suspect view still uses the old bounds. These are as good as before if the doubted rounds are
false, and `suspect` warns of the other case.

A round more than `sync_window` newer than the belief is also kept aside until three agree, but it
does not make the view suspect. A single date from the far future must not displace all earlier
rounds. Three such rounds are a jump only if the first contradicts the range that the belief allows
at that time.

A round more than `sync_window` older is late and changes nothing, with one exception. If its
server's time is closer to its arrival than that of the belief's newest round, the belief came from
a wrong date. Three such rounds replace it.

*New* and *old* refer to the server's clock, since the source's may jump. While no round is doubted
and at most `MAX_BOUNDS` bounds are needed, the belief depends only on the set of rounds within
`sync_window`. Their order and repeats change nothing (`topology.order.clock.polygon`). During a
jump, the order of the rounds matters until the jump is decided.

The view is `stale` more than `STALE_AFTER_NS` after the newest round or before the oldest bound. At
such times the clock may drift at any rate up to `max_skew`. So the bounds widen by `max_skew` on
both sides, while the guess continues along its line. The error grows by `max_skew` plus the guessed
rate.

Cost: O(bounds) per round, O(corners) per cell. Memory: `MAX_BOUNDS` bounds of each kind and
`MAX_DOUBTED` rounds.
"""

from __future__ import annotations

from itertools import compress
from operator import attrgetter
from typing import Final, NamedTuple

from topology.order.clock.cell import CELL_NS, STALE, SUSPECT, SYNCED, cell_start
from topology.order.clock.marzullo import find_most_covered, majority
from topology.order.clock.polygon import BOUNDS, PPB, Bounds, Polygon, guess_of, polygon_of
from topology.order.clock.settings import SINCE_EVER, STALE_AFTER_NS, ClockConfig
from topology.state.saved import FLAG, INT, Saved, Shape, list_of, optional, record

GOOD_ROUNDS: Final = 3
"""The number of rounds that a view needs to have an answer, and that must agree on a jump."""
MAX_DOUBTED: Final = 16
GUESS_WINDOWS: Final = 3
"""The number of `sync_window`s for which bounds are kept.

The guess uses all of them, and the polygon only the last one.
"""
NS_PER_MIN: Final = 60_000_000_000

Range = tuple[int, int, int]
"""The smallest possible offset, the guess, and the largest possible offset, in ns."""


class Round(NamedTuple):
    """A round of time sync, as bounds of the offset D.

    D <= `upper_ns` at `sent_ns` and D >= `lower_ns` at `received_ns`, both times on the source's
    clock. `server_ns` is the server's time of its answer. `lag_ns` is the distance from that time
    to the sample's arrival.
    """

    sent_ns: int
    upper_ns: int
    received_ns: int
    lower_ns: int
    server_ns: int
    lag_ns: int

    def is_newer_than(self, other: Round) -> bool:
        """Return whether this round is newer by the server's clock; other fields break ties."""
        return self[4::-1] > other[4::-1]

    def at(self, ts_ns: int, skew_ppb: int) -> tuple[int, int]:
        """Return the smallest and the largest possible offset at `ts_ns`, widened by the drift."""
        below_ns = abs(ts_ns - self.received_ns) * skew_ppb // PPB + 1
        above_ns = abs(ts_ns - self.sent_ns) * skew_ppb // PPB + 1
        return self.lower_ns - below_ns, self.upper_ns + above_ns


SERVER_TIME: Final = attrgetter("server_ns")


class OffsetSpan(NamedTuple):
    """The range of possible offsets and the guess at both ends of a cell.

    Both are interpolated linearly between the ends.
    """

    state: str
    start: Range
    end: Range


ROUND: Final = record(
    Round, sent_ns=INT, upper_ns=INT, received_ns=INT, lower_ns=INT, server_ns=INT, lag_ns=INT
)
BELIEF: Final = Shape(
    "clock.belief",
    1,
    _first_three=list_of(list_of(INT)),
    newest=optional(ROUND),
    received_ns=INT,
    _uppers=BOUNDS,
    _lowers=BOUNDS,
)


class Belief(Saved):
    """The rounds of a view that agree, and the range of offsets that they allow."""

    SHAPE = BELIEF
    __slots__ = (*BELIEF.fields, "_config", "_guess", "polygon")

    def __init__(self, config: ClockConfig) -> None:
        self._config = config
        self._uppers = Bounds(config.max_skew_ppb)
        self._lowers = Bounds(config.max_skew_ppb)
        self._first_three: list[list[int]] = []
        self.polygon: Polygon | None = None
        self._guess: tuple[float, float] | None = None
        """The line of the guess, computed when it is needed."""
        self.newest: Round | None = None
        """The newest round by the server's clock."""
        self.received_ns = 0
        """The latest time on the source's clock at which an answer was received."""

    @property
    def rounds(self) -> int:
        """The number of different rounds, counted up to `GOOD_ROUNDS`."""
        return len(self._first_three)

    def join(self, new: Round) -> bool:
        """Add a round, and return whether it agrees. A contradicting round changes nothing."""
        newest = self.newest
        if newest is None:
            self.newest, self.received_ns = new, new.received_ns
        elif not are_compatible(newest, new, self._config.max_skew_ppb):
            return False
        if not self._narrow(new):
            return False
        if newest is not None and new.is_newer_than(newest):
            self.newest = new
        self.received_ns = max(self.received_ns, new.received_ns)
        plain = list(new[:-1])
        if len(self._first_three) < GOOD_ROUNDS and plain not in self._first_three:
            self._first_three.append(plain)
        return True

    def _narrow(self, new: Round) -> bool:
        config = self._config
        uppers, lowers = self._uppers.copy(), self._lowers.copy()
        tighter = uppers.add(new.sent_ns, new.upper_ns)
        tighter = lowers.add(new.received_ns, -new.lower_ns) or tighter
        if not tighter:
            return True
        kept_ns = GUESS_WINDOWS * config.sync_window_ns
        expired_ns = max(self.received_ns, new.received_ns) - kept_ns
        uppers.expire(expired_ns)
        lowers.expire(expired_ns)
        if self.polygon is not None:
            rate = self.polygon.rate()
            uppers.thin(rate)
            lowers.thin(-rate)
        polygon = polygon_from_bounds(uppers, lowers, config)
        if polygon is None:
            return False
        self._uppers, self._lowers, self.polygon = uppers, lowers, polygon
        self._guess = None
        return True

    def span(self, start_ns: int) -> OffsetSpan:
        """Return the range of offsets over the cell that starts at `start_ns`."""
        oldest_ns = min(self._uppers.times_ns[0], self._lowers.times_ns[0])
        first_ns = max(oldest_ns, self.received_ns - self._config.sync_window_ns)
        # Fresh bounds begin and end where cells do, so that the bounds are convex within each cell.
        fresh_from_ns = cell_start(first_ns - STALE_AFTER_NS)
        fresh_until_ns = cell_start(self.received_ns + STALE_AFTER_NS) + CELL_NS
        end_ns = start_ns + CELL_NS
        if fresh_from_ns <= start_ns < fresh_until_ns:
            return OffsetSpan(SYNCED, self._range_at(start_ns), self._range_at(end_ns))
        anchor_ns = fresh_until_ns if start_ns >= fresh_until_ns else fresh_from_ns
        anchor = self._range_at(anchor_ns)
        start = self._extrapolate(anchor, start_ns - anchor_ns)
        return OffsetSpan(STALE, start, self._extrapolate(anchor, end_ns - anchor_ns))

    def _range_at(self, ts_ns: int) -> Range:
        polygon = self.polygon
        assert polygon is not None
        low_ns, high_ns = polygon.offsets_at(ts_ns)
        theta, rho = self._likeliest_line()
        guess_ns = polygon.base_ns + round(theta + rho * (ts_ns - polygon.t0_ns))
        return low_ns, min(max(low_ns, guess_ns), high_ns), high_ns

    def _extrapolate(self, anchor: Range, away_ns: int) -> Range:
        low_ns, guess_ns, high_ns = anchor
        grown_ns = -(-self._config.max_skew_ppb * abs(away_ns) // PPB)
        guess_ns += self.rate_ppb() * away_ns // PPB
        return low_ns - grown_ns, guess_ns, high_ns + grown_ns

    def _likeliest_line(self) -> tuple[float, float]:
        assert self.polygon is not None
        if self._guess is None:
            skew = self._config.max_skew_ppb / PPB
            self._guess = guess_of(self.polygon, self._uppers, self._lowers, skew)
        return self._guess

    def rate_ppb(self) -> int:
        """Return the estimated rate, in ppb, at which the offset changes."""
        return round(self._likeliest_line()[1] * PPB)

    def derive(self) -> None:
        if self.newest is not None:
            self.polygon = polygon_from_bounds(self._uppers, self._lowers, self._config)


SERVER_VIEW: Final = Shape(
    "clock.server_view",
    1,
    arrival_ns=INT,
    belief=BELIEF,
    doubted=list_of(ROUND),
    suspect=FLAG,
    floor_ns=INT,
    false_rounds=INT,
    late_rounds=INT,
)


class ServerView(Saved):
    """The view of a source's clock that the rounds of one server give.

    `false_rounds` and `late_rounds` are counts. `floor_ns` is the server's time up to which rounds
    belong to an earlier segment. `arrival_ns` is the arrival time of the latest sample.
    """

    SHAPE = SERVER_VIEW
    __slots__ = (*SERVER_VIEW.fields, "_config")

    def __init__(self, config: ClockConfig) -> None:
        self._config = config
        self.arrival_ns = 0
        self.belief = Belief(config)
        self.doubted: list[Round] = []
        """The doubted rounds, in order of arrival."""
        self.suspect = False
        self.floor_ns = SINCE_EVER
        self.false_rounds = 0
        self.late_rounds = 0

    @property
    def answers(self) -> bool:
        return self.belief.rounds >= GOOD_ROUNDS

    def span(self, start_ns: int) -> OffsetSpan:
        """Return the range of offsets over the cell at `start_ns`. The view must have an answer."""
        span = self.belief.span(start_ns)
        return span._replace(state=SUSPECT) if self.suspect else span

    def reset(self) -> None:
        """Drop the belief, because the clock has jumped and the segment is over."""
        newest = self.belief.newest
        if newest is not None:
            self.floor_ns = max(self.floor_ns, newest.server_ns)
        self.belief = Belief(self._config)
        self.doubted = []
        self.suspect = False

    def restart_after_jump(self) -> None:
        """Restart the view after a jump that other views have seen.

        The belief is dropped, and the doubted rounds are added again, since they may belong to the
        new segment.
        """
        doubted = sorted(self.doubted, key=SERVER_TIME)
        self.reset()
        for each in doubted:
            self.add(each)

    def add(self, new: Round) -> bool:
        """Add a round, and return whether it shows that the clock has jumped."""
        jumped = self._take(new)
        newest = self.belief.newest
        self.suspect = newest is not None and bool(self._doubted_near(newest))
        return jumped

    def _doubted_near(self, one: Round) -> list[Round]:
        """Return the doubted rounds within `sync_window` of `one`, in order of arrival."""
        window_ns = self._config.sync_window_ns
        return [each for each in self.doubted if abs(each.server_ns - one.server_ns) <= window_ns]

    def _take(self, new: Round) -> bool:
        newest = self.belief.newest
        ahead_ns = lag_ns = 0
        if newest is not None:
            ahead_ns, lag_ns = new.server_ns - newest.server_ns, newest.lag_ns
        is_old = ahead_ns < -self._config.sync_window_ns
        if new.server_ns <= self.floor_ns or (is_old and new.lag_ns >= lag_ns):
            self.late_rounds += 1
            return False
        if is_old or ahead_ns > self._config.sync_window_ns:
            return self._add_doubted(new)
        if self.belief.join(new):
            self._resolve_doubted(new)
            return False
        if ahead_ns > 0:
            return self._add_doubted(new)
        self.false_rounds += 1
        return False

    def _resolve_doubted(self, good: Round) -> None:
        """Decide which of the doubted rounds are false, after a round has joined the belief.

        A doubted round that is not newer joins the belief if it fits, and is false if it does not.
        """
        doubted, self.doubted = self.doubted, []
        for each in doubted:
            if each.server_ns > good.server_ns:
                self.doubted.append(each)
            elif not self.belief.join(each):
                self.false_rounds += 1

    def _add_doubted(self, new: Round) -> bool:
        if any(each[:-1] == new[:-1] for each in self.doubted):
            return False
        self.doubted.append(new)
        if len(self.doubted) > MAX_DOUBTED:
            self.false_rounds += 1
            del self.doubted[0]
        near = sorted(self._doubted_near(new), key=SERVER_TIME)
        known = self.belief.rounds
        least = GOOD_ROUNDS if known >= GOOD_ROUNDS else majority(known + len(near))
        for agreeing in find_agreeing_sets(near, self._config.max_skew_ppb):
            belief = Belief(self._config)
            believed = [each for each in reversed(agreeing) if belief.join(each)]
            if len(believed) >= least:
                return self._replace(belief, believed, near)
        return False

    def _replace(self, belief: Belief, believed: list[Round], near: list[Round]) -> bool:
        """Replace the old belief by `belief`, which consists of `believed`, newest first.

        Return whether the clock has jumped.
        """
        old, first = self.belief, believed[-1]
        assert old.newest is not None
        gap_ns = first.server_ns - old.newest.server_ns
        jumped = old.rounds >= GOOD_ROUNDS
        if jumped and gap_ns > self._config.sync_window_ns:
            _, start, end = old.span(cell_start(first.received_ns))
            jumped = first.lower_ns > max(start[2], end[2]) or first.upper_ns < min(
                start[0], end[0]
            )
        self.belief = belief
        self.doubted = [each for each in self.doubted if each not in near]
        self.false_rounds += len(near) - len(believed)
        if gap_ns > 0:
            self.floor_ns = max(self.floor_ns, old.newest.server_ns)
        if not jumped and gap_ns <= self._config.sync_window_ns:
            self.false_rounds += old.rounds
        return jumped


def polygon_from_bounds(uppers: Bounds, lowers: Bounds, config: ClockConfig) -> Polygon | None:
    """Return the polygon of the lines that the bounds allow, or None if there is no such line."""
    half_wander = config.wander_ppb_per_min / PPB / NS_PER_MIN / 2
    return polygon_of(uppers, lowers, config.sync_window_ns, config.max_skew_ppb / PPB, half_wander)


def are_compatible(one: Round, other: Round, skew_ppb: int) -> bool:
    """Return whether both rounds are possible for one clock that drifts by at most `skew_ppb`."""
    low_ns, high_ns = one.at(other.received_ns, skew_ppb)
    other_low_ns, other_high_ns = other.at(other.received_ns, skew_ppb)
    return low_ns <= other_high_ns and other_low_ns <= high_ns


def find_agreeing_sets(rounds: list[Round], skew_ppb: int) -> list[list[Round]]:
    """Return sets of rounds that may agree: a majority that overlaps, and the newest three."""
    ts_ns = rounds[-1].received_ns
    intervals = [each.at(ts_ns, skew_ppb) for each in rounds]
    count, point_ns = find_most_covered(intervals)
    sets = []
    if count >= majority(len(rounds)):
        covered = [low_ns <= point_ns <= high_ns for low_ns, high_ns in intervals]
        sets.append(list(compress(rounds, covered)))
    if len(rounds) > GOOD_ROUNDS:
        sets.append(rounds[-GOOD_ROUNDS:])
    return sets
