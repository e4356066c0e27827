"""Keeps the state of CLOCK for one source, takes its clock reports, and detects jumps of its clock.

The limits that every event is compared with are attributes; `topology.order.clock.operator`
explains them. They are recomputed when a report is taken, when the clock jumps, or when the
source's time enters another cell (`topology.order.clock.cell`). They are also recomputed when a
reading, arrival
- timestamp, moves the edge of the readings (`topology.order.clock.one_way`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

from topology.base.native import mypyc_attr
from topology.base.operator import NEVER, Changes
from topology.base.sample import Sample
from topology.order.clock.cell import BROKEN, SYNCED, UNSYNCED, ClockCell, cell_start
from topology.order.clock.drift_table import DriftTable, Place, SampleTrack, effective_key, place_of
from topology.order.clock.models import Measuring, OfModel, Rounds
from topology.order.clock.one_way import ONE_WAY, OneWay
from topology.order.clock.settings import FOR_EVER, PASSIVE_FLOOR_NS, SINCE_EVER
from topology.state.saved import BIG, FLAG, INT, TEXT, Shape, list_of, optional, tuple_of
from topology.state.sources import KnownSource, SourceTable
from topology.state.tables import Table

JUMP_VOTES: Final = 3
"""The number of consecutive events that must agree on a jump of the clock."""

SETTLE_NS: Final = 10_000_000_000
"""How long a source may be draining a backlog: by timestamps after its quickest event, or by
arrivals after a fall of its timestamps."""

NOTHING_RECEIVED: Final = (SINCE_EVER, SINCE_EVER)
NO_CELL: Final = ClockCell(0, UNSYNCED)
NO_CELL.end_ns = 0

NOTHING: Final = ""
DECLARED: Final = "declared"
MEASURED: Final = "measured"
POLICY: Final = "policy"
"""The possible bases on which the corrected timestamps of a segment are computed."""

Vote = tuple[int, int]
"""The timestamp and the reading of an event that contradicts the clock."""


class MovedSources:
    """The number of sources corrected by the policy `estimate`, and the largest correction."""

    __slots__ = ("moved", "moved_ns")

    def __init__(self) -> None:
        self.moved = 0
        self.moved_ns = 0


PLACE: Final = tuple_of(INT, INT)
STAMP: Final = Shape(
    "clock.stamp",
    1,
    fallen_ns=BIG,
    votes=list_of(tuple_of(INT, INT), tuple),
    ref_time_ns=INT,
    last_arrival_ns=INT,
    segment=INT,
    straying=FLAG,
    state=TEXT,
    newest_ts_ns=INT,
    sets_back=FLAG,
    regained_ns=INT,
)
"""The saved part of a source that may change with every event."""
MODEL: Final = Shape(
    "clock.model",
    1,
    received=PLACE,
    broken=FLAG,
    proven=FLAG,
    unsettled_until_ns=BIG,
    _ground=TEXT,
    _base_ns=BIG,
    moved_ns=BIG,
    _base_error_ns=BIG,
    _refuted=PLACE,
    _declared=optional(list_of(INT)),
    _one_way=optional(ONE_WAY),
)
"""The saved form of a source's clock. `model_shape` adds the `measured` clock of the model."""


@mypyc_attr(acyclic=True)
class SourceClock(KnownSource):
    """A source in CLOCK, with its clock and its latest timestamps.

    `ref_time_ns` is the newest corrected timestamp in sequence, `newest_ts_ns` the newest
    timestamp, and `segment` the current segment.
    """

    SHAPE = STAMP
    __slots__ = (
        *STAMP.fields,
        *MODEL.fields,
        "_config",
        "_rounds",
        "_tally",
        "bin_end_ns",
        "cell",
        "due_ns",
        "least_reading_ns",
        "measured",
        "model_dirty",
        "notable_ns",
        "refuted_ns",
        "steady",
        "track",
        "track_version",
        "watched",
    )

    def __init__(  # noqa: PLR0915
        self, source: str, rounds: Rounds, track: SampleTrack, tally: MovedSources
    ) -> None:
        super().__init__(source, SINCE_EVER)
        self._rounds = rounds
        self._config = config = rounds.config
        self._tally = tally
        self.track = track
        self.track_version = -1
        self.due_ns = NEVER
        """The arrival time from which the next report applies."""
        self.ref_time_ns = SINCE_EVER
        self.newest_ts_ns = SINCE_EVER
        self.segment = 0
        self.sets_back = False
        """True if an event that was not trusted was set back since the last jump."""
        self.regained_ns = 0
        """The largest fall after which timestamps rose faster than one clock can."""
        self.broken = False
        """True if events have refuted a declared or measured offset, and no sync has followed."""
        self.proven = False
        """True once the samples of this segment have given an offset and error."""
        self.straying = False
        """True if the last event contradicted the clock."""
        self.unsettled_until_ns = SINCE_EVER
        """Until this timestamp, the edge may come from a backlog while the clock is right."""
        self.votes: tuple[Vote, ...] = ()
        self.steady = True
        """True if the last event did not contradict the clock and there are no votes."""
        self.received: Place = NOTHING_RECEIVED
        self._declared: list[int] | None = None
        self._refuted: Place = NOTHING_RECEIVED
        """The `Place` of the declared offset that the source's events have refuted."""
        self._ground, self._base_ns, self._base_error_ns = NOTHING, 0, 0
        """The basis of the segment, and the offset and its error when the segment began."""
        self.moved_ns = 0
        """The largest correction that the policy `estimate` has made."""
        self.measured: Measuring | None = None
        self._one_way = self._new_one_way() if config.unsynced == "estimate" else None
        self.cell = NO_CELL
        self.least_reading_ns = SINCE_EVER
        """With a smaller reading, the offset would put an event too far after its arrival."""
        self.refuted_ns = SINCE_EVER
        """A smaller reading contradicts the clock, because the clock's error cannot explain it."""
        self.notable_ns = SINCE_EVER
        self.bin_end_ns = FOR_EVER
        """A reading below `notable_ns`, or a timestamp from `bin_end_ns` on, may move the edge."""
        self.fallen_ns = SINCE_EVER
        """A smaller timestamp has fallen in the order of sequence, or has not risen again yet."""
        self.watched = self._one_way is not None
        """True if there is an offset or an edge that the source's events can contradict."""
        self.state = ""
        """The state of the clock at the last event, or "" before the first."""
        self.model_dirty = True

    def _new_one_way(self) -> OneWay:
        config = self._config
        return OneWay(config.max_skew_ppb, config.mend_above_ns)

    # -- reports -----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start from the folded model, if any, as if its samples had been taken when they arrived.

        The source must not have taken any samples yet.
        """
        folded = next((each for each in self.track.folded if each.rounds == self._rounds), None)
        if folded is not None:
            self.measured = folded.copy()
            self.segment += folded.segments
            self.received = folded.place
            self.watched = True

    def take_reports(self) -> None:
        """Take the reports that apply at the source's latest arrival."""
        config = self._config
        track = self.track
        self.track_version = track.version
        due_ns = self.last_arrival_ns - config.activation_ns
        news = track.after(self.received, due_ns)
        for sample in news:
            self._take(sample)
            self.received = place_of(sample)
        declared = [
            word for word in track.declared if effective_key(word)[0] <= self.last_arrival_ns
        ]
        if declared:
            word = declared[-1]
            self._declared = None
            if word.offset_ns is not None and place_of(word) != self._refuted:
                self._declared = [word.offset_ns, word.error_ns, *place_of(word)]
        self.due_ns = self._next_due_ns()
        if news or declared:
            self.watched = True
            self.cell = NO_CELL
            self.model_dirty = True

    def _next_due_ns(self) -> int:
        due = [effective_key(word)[0] for word in self.track.declared]
        due = [ns for ns in due if ns > self.last_arrival_ns]
        after = self.track.next_sample_after(self.received)
        if after is not None:
            due.append(after.arrival_ns + self._config.activation_ns)
        return min(due, default=NEVER)

    def _take(self, sample: Sample) -> None:
        if self.measured is None:
            self.measured = self._rounds.clock()
        segment = self.measured.segment
        self.measured.add(sample)
        if self.measured.segment != segment:
            self.proven = False
            self.segment += 1

    # -- events ------------------------------------------------------------------------------------

    def enter_cell(self, ts_ns: int, reading_ns: int) -> ClockCell:
        """Return the cell that contains `ts_ns`, and compute the limits for readings within it.

        If the caller will add the reading by `note`, the cell before it may be returned instead.
        """
        one_way = self._one_way
        if one_way is not None and not one_way.has_begun:
            one_way.note(ts_ns, reading_ns)
            self._update_limits(one_way)
        elif self._waits_for_note(ts_ns, reading_ns):
            return self.cell
        self._set_cell(ts_ns)
        return self.cell

    def _waits_for_note(self, ts_ns: int, reading_ns: int) -> bool:
        """Return whether `note` alone has to compute the cell, and set the limits until then.

        A source that sends about once in a cell notes most of its readings. So each would compute
        the cell twice, and the first one has no effect if it corrects nothing, as before it.
        """
        one_way, cell = self._one_way, self.cell
        if (
            one_way is None
            or one_way.mends
            or not (reading_ns < self.notable_ns or ts_ns >= self.bin_end_ns)
            or self._ground != POLICY
            or self._base_ns
            or cell is NO_CELL
            or cell.state != (BROKEN if self.broken else UNSYNCED)
            or self._declared is not None
            or self.measured is not None
        ):
            return False
        edge_ns = min(one_way.edge_ns(ts_ns), 0)
        least_ns = edge_ns - self._config.jump_min_ns
        if edge_ns < -PASSIVE_FLOOR_NS or reading_ns < least_ns:
            return False
        self.least_reading_ns = self.refuted_ns = least_ns
        return True

    def _set_cell(self, ts_ns: int) -> None:
        """Set the cell that contains `ts_ns`, and begin a segment if the basis has changed."""
        ground, cell = self._choose_cell(ts_ns)
        self.cell = cell
        if ground == DECLARED:
            moved = (cell.offset_ns, cell.error_ns) != (self._base_ns, self._base_error_ns)
        else:
            # An estimate that moves by no more than this does not begin a segment.
            same_ns = PASSIVE_FLOOR_NS if self._one_way is not None else 0
            moved = ground == POLICY and abs(cell.offset_ns - self._base_ns) > same_ns
        if ground != self._ground or moved:
            if self._ground:
                self.segment += 1
            self._ground, self._base_ns = ground, cell.offset_ns
            self._base_error_ns = cell.error_ns
            self.model_dirty = True

    def _choose_cell(self, ts_ns: int) -> tuple[str, ClockCell]:
        config = self._config
        slack_ns = config.broker_slack_ns
        if self._declared is not None:
            offset_ns, error_ns = self._declared[:2]
            self.least_reading_ns = offset_ns - slack_ns
            self.refuted_ns = self.least_reading_ns - error_ns
            return DECLARED, make_constant_cell(SYNCED, offset_ns, error_ns)
        if self.measured is not None:
            cell = self.measured.cell(ts_ns)
            # Under `trust`, a clock that was measured once is better than uncorrected timestamps.
            if cell.state != UNSYNCED or (self.proven and config.unsynced == "trust"):
                if not self.proven:
                    self.proven = True
                    self.broken = False
                    self.model_dirty = True
                self.least_reading_ns = max_offset_of(cell) - slack_ns
                self.refuted_ns = min(self.least_reading_ns, min_offset_of(cell) - slack_ns)
                return MEASURED, cell
        return POLICY, self._unsynced_cell(ts_ns)

    def _unsynced_cell(self, ts_ns: int) -> ClockCell:
        one_way = self._one_way
        state = BROKEN if self.broken else UNSYNCED
        if one_way is not None:
            cell, edge_ns = one_way.cell(ts_ns)
            cell.state = state
            if cell.start_ns < self.unsettled_until_ns:
                cell.error_ns = max(cell.error_ns, cell.offset_ns)
            if not one_way.mends:  # The clock may be right, so a quicker event is no contradiction.
                edge_ns = min(edge_ns, 0)
            self.least_reading_ns = self.refuted_ns = edge_ns - self._config.jump_min_ns
            if abs(cell.offset_ns) > self.moved_ns:
                self._count_move(abs(cell.offset_ns))
            return cell
        trusts = self._config.unsynced == "trust"
        least_ns = -self._config.max_ahead_ns if trusts else FOR_EVER
        self.least_reading_ns = self.refuted_ns = least_ns
        if self.measured is None:
            return make_constant_cell(state, 0, 0)
        return ClockCell(cell_start(ts_ns), state)

    def _count_move(self, moved_ns: int) -> None:
        tally = self._tally
        tally.moved += not self.moved_ns
        tally.moved_ns = max(tally.moved_ns, moved_ns)
        self.moved_ns = moved_ns
        self.model_dirty = True

    def note(self, ts_ns: int, reading_ns: int) -> ClockCell:
        """Add a reading that may move the edge, and return the cell that then applies."""
        one_way = self._one_way
        if one_way is not None:
            moved = one_way.note(ts_ns, reading_ns)
            self._update_limits(one_way)
            if moved or not self.cell.start_ns <= ts_ns < self.cell.end_ns:
                self._set_cell(ts_ns)
        return self.cell

    def _update_limits(self, one_way: OneWay) -> None:
        self.notable_ns = one_way.notable_ns
        self.bin_end_ns = one_way.bin_end_ns
        self.model_dirty = True

    @property
    def is_known(self) -> bool:
        """True if the offset comes from samples or from a user's declaration."""
        return self.proven or self._declared is not None

    # -- jumps -------------------------------------------------------------------------------------

    def record_contradiction(self, ts_ns: int, reading_ns: int) -> bool:
        """Record an event whose reading contradicts the clock. Return whether it shows a jump.

        All calls since the last call of `record_agreement` are for consecutive events.
        """
        if not self.straying:
            self.straying = True
            self.segment += 1
            self.votes = ()
        if reading_ns >= 0:
            self.unsettled_until_ns = max(self.unsettled_until_ns, ts_ns + SETTLE_NS)
            self.cell = NO_CELL
            self.model_dirty = True
        return self._vote_for_jump(ts_ns, reading_ns)

    def record_agreement(self) -> None:
        """Record that an event agrees with the clock after events that contradicted it."""
        self.straying = False
        self.steady = True
        self.segment += 1
        self.votes = ()

    def record_fall(self, ts_ns: int, reading_ns: int) -> bool:
        """Record that the timestamp fell in the order of sequence. Return whether it shows a jump.

        The clock need not be wrong: the event may only have taken long, or have the time of another
        clock. So falls must have lasted for `SETTLE_NS` by arrivals or, if that is shorter, for as
        long as the timestamp is below the newest. Until then twice the fall covers a step of the
        clock. Falls of a source with several clocks do not count, up to twice the largest of them.
        If the clock was considered to be ahead, and the timestamp would be right without that,
        falls count at once.
        """
        fall_ns = self.newest_ts_ns - ts_ns
        if fall_ns <= max(2 * self.regained_ns, self._config.max_set_back_ns or 0):
            return False
        if not self.votes:
            self.fallen_ns += self._config.jump_min_ns
        if not self._add_vote(ts_ns, reading_ns):
            return False
        first_ts_ns, first_reading_ns = self.votes[0]
        lasted_ns = ts_ns + reading_ns - first_ts_ns - first_reading_ns
        is_right_alone = 0 <= reading_ns <= -self.cell.offset_ns
        if lasted_ns < min(fall_ns, SETTLE_NS) and not is_right_alone:
            return False
        self._drop_offset()
        self.segment += 1
        self.fallen_ns = ts_ns - self._config.jump_min_ns
        return True

    def record_rise(self, ts_ns: int, reading_ns: int) -> None:
        """Record that timestamps have risen again to their level before the fall."""
        if self.votes:
            fallen_ts_ns, fallen_reading_ns = self.votes[-1]
            if fallen_reading_ns - reading_ns > self._config.jump_min_ns:
                # The timestamps rose by this much more than the arrivals.
                fall_ns = self.newest_ts_ns - fallen_ts_ns
                self.regained_ns = max(self.regained_ns, fall_ns)
        self.votes = ()
        self.steady = True
        self.fallen_ns = ts_ns - self._config.jump_min_ns

    def _vote_for_jump(self, ts_ns: int, reading_ns: int) -> bool:
        if self._add_vote(ts_ns, reading_ns):
            self._drop_offset()
            return True
        return False

    def _add_vote(self, ts_ns: int, reading_ns: int) -> bool:
        """Add a vote for a jump, and return whether enough votes agree.

        The first of the votes that agree is kept, and the last ones. Readings may be as far apart
        as the clocks of the source, or a quarter of the time by which it was considered ahead.
        """
        votes = self.votes
        self.steady = False
        apart_ns = self._config.jump_min_ns + 2 * self.regained_ns
        apart_ns = max(apart_ns, -self.cell.offset_ns // 4)
        if votes and abs(votes[0][1] - reading_ns) > apart_ns:
            votes = ()
        if len(votes) == JUMP_VOTES:
            votes = (votes[0], *votes[2:])
        self.votes = (*votes, (ts_ns, reading_ns))
        return len(self.votes) == JUMP_VOTES

    def _drop_offset(self) -> None:
        """Drop the clock's offset, because the clock has jumped.

        If the offset was measured or estimated, the votes are the first readings of the new clock.
        """
        self._ground = NOTHING  # The new segment has already begun.
        if self._declared is not None:
            self.broken = not self.proven
            self._refuted = (self._declared[2], self._declared[3])
            self._declared = None
        else:
            self._begin_anew()
        self.votes = ()
        self.straying = False
        self.steady = True
        self.sets_back = False  # The clock itself was set back.
        self.newest_ts_ns = SINCE_EVER
        self.cell = NO_CELL
        self.model_dirty = True

    def _begin_anew(self) -> None:
        if self.measured is not None:
            self.broken = self.broken or self.proven
            self.proven = False
            self.measured.begin_segment()
        one_way = self._one_way
        if one_way is not None:
            one_way.reset()
            for ts_ns, reading_ns in self.votes:
                one_way.note(ts_ns, reading_ns)
            if not self.straying or self.votes[-1][1] < 0:
                one_way.settle()  # Otherwise a backlog may be draining while the clock is right.
            self._update_limits(one_way)

    # -- for people --------------------------------------------------------------------------------

    def explain(self) -> dict[str, Any]:
        measured = self.measured
        answer = {
            "source": self.source,
            "state": self.state or UNSYNCED,
            "offset_ns": self.cell.offset_ns,
            "error_ns": self.cell.error_ns,
            "segment": self.segment,
            "skew_ppb": None,
        }
        if measured is not None:
            answer["skew_ppb"] = measured.skew_ppb()
            answer["rejected_rounds"] = measured.rejected
            answer["false_rounds"] = measured.falsetickers
        return answer

    # -- state -------------------------------------------------------------------------------------

    def fresh(self, field: str) -> Any:
        return self._rounds.clock() if field == "measured" else self._new_one_way()

    def resume(self) -> None:
        """Complete the restored source once both of its rows have been read.

        The rows may have been written by a CLOCK with other settings.
        """
        if self.moved_ns:
            self._tally.moved += 1
            self._tally.moved_ns = max(self._tally.moved_ns, self.moved_ns)
        self.steady = not self.votes and not self.straying
        if self._config.sync == "none":
            self.measured = self._declared = None
            self.proven = False
        elif self.received != NOTHING_RECEIVED:
            self.watched = True
            # Another model wrote the row, so this model takes the samples again.
            if self.measured is None:
                self.received = NOTHING_RECEIVED
                self.proven = False
                self.begin()
        if self._declared is not None:
            self.watched = True
        if self._config.unsynced != "estimate":
            self._one_way = None
        elif self._one_way is None:
            self._one_way = self._new_one_way()
        else:
            self._update_limits(self._one_way)
        self.model_dirty = False


class Clocks(SourceTable[SourceClock]):
    """The table of the sources of CLOCK.

    Each source has two rows: its latest timestamps here, and its model in `models`.
    """

    def __init__(
        self, rounds: Rounds, table: DriftTable, max_sources: int, forget_after_ns: int
    ) -> None:
        self.moved = moved = MovedSources()
        rows: dict[str, SourceClock] = {}

        def clock_of(source: str) -> SourceClock:
            clock = rows.get(source)
            if clock is None:
                clock = rows[source] = SourceClock(
                    source, rounds, table.acquire_track(source), moved
                )
            return clock

        # If the tables referred to each other, they would stay in memory until garbage collection.
        super().__init__("stamp/", STAMP, clock_of, max_sources, forget_after_ns, rows)
        self.models = ClockModels(clock_of, rows, rounds.clock().SHAPE)

    def changes(self) -> Changes:
        """Return the changed rows, and mark the changed models in `models`."""
        for source in self._changed if self.is_followed else self.rows:
            clock = self.rows.get(source)
            if clock is None:
                self.models.note(source)
            elif clock.model_dirty:
                clock.model_dirty = False
                self.models.note(source)
        return super().changes()


@cache
def model_shape(measured: Shape) -> Shape:
    """Return the shape of a source's model row whose `measured` clock has the given shape."""
    return MODEL.with_more("clock.model", 1, measured=OfModel(measured))


class ClockModels(Table[str, SourceClock]):
    """The table of the models of the sources' clocks, whose rows rarely change."""

    source_at = 0

    def __init__(
        self,
        clock_of: Callable[[str], SourceClock],
        rows: dict[str, SourceClock],
        measured: Shape,
    ) -> None:
        super().__init__("model/", model_shape(measured), rows)
        self._clock_of = clock_of

    def fresh(self, key: str) -> SourceClock:
        return self._clock_of(key)

    def put(self, key: str, row: SourceClock) -> None:
        row.model_dirty = False


def make_constant_cell(state: str, offset_ns: int, error_ns: int) -> ClockCell:
    cell = ClockCell(SINCE_EVER, state, offset_ns, error_ns)
    cell.end_ns = FOR_EVER
    return cell


def max_offset_of(cell: ClockCell) -> int:
    """Return the largest offset that the cell gives to a timestamp."""
    return max(cell.offset_ns, cell.offset_at(cell.end_ns - 1))


def min_offset_of(cell: ClockCell) -> int:
    """Return the smallest offset that is possible within the cell."""
    ends_ns = cell.end_ns - 1
    return min(cell.offset_ns - cell.error_ns, cell.offset_at(ends_ns) - cell.error_at(ends_ns))
