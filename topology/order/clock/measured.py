"""Computes the offset and error of one source's clock from all samples about it.

Each sync server has its own *view* of the clock (`topology.order.clock.server_view`). If there is
one server, its view is the result. If there are several, the result is correct as long as fewer
than half of them are false. Their number is `servers`, or the number of those seen within
`STALE_AFTER_NS`, if that is larger.

The clock is `unsynced` until the views of most servers have an answer. So a false server that
responds before the others does not decide alone. If too few servers still send rounds, the views of
the silent ones are used too. The error of such a view grows with the time after its last round.

Views that disagree with the majority are falsetickers and are left out. The bounds from the other
views hold whichever of these are false, even if a false one overlaps the true ones
(`topology.order.clock.marzullo`). So one false server of three cannot move a bound into a range
that the other two exclude. If the views that have an answer reach no majority, the clock is
`suspect` and the result spans them all.

A sample is *rejected*, which means counted without effect, in these cases:

* its round trip is below -2 granularities or above `MAX_RTT_NS`;
* an answer precedes its question (t3 < t2, t4 < t1);
* the server took more than `MAX_TURNAROUND_NS`;
* the difference of the clocks does not fit 64 bits (292 years).

Both bounds of a round are widened by one granularity.

A *segment* of the clock ends in one of these cases:

* The source reports a jump, by another `sample.segment` or by `mono` (wall minus monotonic clock).
  A `mono` counts if it differs by more than `STEP_NS` from that of the newest sample. A smaller
  `sample.segment` that is not late means that the source has restarted its count. All views
  restart at once.
* Most of the views have seen a jump in their rounds. Only views that had an answer when the first
  jump was seen are counted. Those of them that have not seen a jump restart.
* `begin_segment` is called, because events have shown a jump.

Samples of an earlier segment are late. `late` counts them, and they change nothing.

A cell has one of these states:

* `unsynced`, unless the views of most servers have three good rounds each and the error is at most
  `max_error` in the whole cell;
* `suspect`, if most of the agreeing views are suspect or if no majority agrees;
* `stale`, if none of the agreeing views is synced;
* `synced` otherwise.

The offset is the guess of the view (`topology.order.clock.polygon`), or the median guess of several
views. The error is the distance to the farther end of the possible range, plus the rounding error.

At most `MAX_SERVERS` views are kept. Beyond that, the view that has gone longest without a sample
is dropped. Cost per source: O(bounds) per sample, O(views x corners) per cell.
"""

from __future__ import annotations

from typing import Final

from topology.base.sample import UNKNOWN_MONO, Sample
from topology.order.clock.cell import STALE, SUSPECT, SYNCED, UNSYNCED, ClockCell, cell_start
from topology.order.clock.marzullo import find_agreeing_intervals, majority
from topology.order.clock.server_view import SERVER_VIEW, OffsetSpan, Range, Round, ServerView
from topology.order.clock.settings import MAX_SERVERS, STALE_AFTER_NS, ClockConfig
from topology.state.saved import INT, TEXT, Saved, Shape, dict_of, list_of, optional

CELL_ROUNDING_NS: Final = 2
"""The rounding error of a cell: two shifts, for offset and error, each round down by up to 1 ns."""
STEP_NS: Final = 1_000_000


MEASURED: Final = Shape(
    "clock.measured",
    1,
    segment=INT,
    _reported_segment=optional(INT),
    _reported_since_ns=INT,
    _jumped=list_of(TEXT),
    _electors=list_of(TEXT),
    _mono_ns=INT,
    _former_mono_ns=INT,
    _mono_since_ns=INT,
    _mono_reported_ns=INT,
    _outvoted=INT,
    _past_false=INT,
    rejected=INT,
    late=INT,
    jumps=INT,
    _views=dict_of(TEXT, SERVER_VIEW),
)


class MeasuredClock(Saved):
    """The clock of one source, computed from its rounds with all servers.

    `segment` counts the segments that have ended, and `jumps` counts those ended by samples.
    `rejected` and `late` count samples without effect (see the module).
    """

    SHAPE = MEASURED
    __slots__ = (*MEASURED.fields, "_config")

    def __init__(self, config: ClockConfig) -> None:
        self._config = config
        self._views: dict[str, ServerView] = {}
        self._jumped: list[str] = []
        """The servers whose rounds have shown a jump that is not decided yet."""
        self._electors: list[str] = []
        """The servers whose views had an answer when the first jump was seen."""
        self._reported_segment: int | None = None
        self._reported_since_ns = 0
        """When the segment was first reported: the server's time, or the arrival if earlier."""
        self._mono_ns = UNKNOWN_MONO
        self._former_mono_ns = UNKNOWN_MONO
        self._mono_since_ns = 0
        self._mono_reported_ns = 0
        """The server's times at which the current `mono` was reported first and last."""
        self._outvoted = 0
        self._past_false = 0
        self.segment = 0
        self.rejected = 0
        self.late = 0
        self.jumps = 0

    @property
    def falsetickers(self) -> int:
        """The number of rounds that contradict their own view, or whose view is a falseticker."""
        within = sum(view.false_rounds for view in self._views.values())
        return self._outvoted + self._past_false + within

    def add(self, sample: Sample) -> None:
        """Add the next sample in arrival order. Late or implausible samples are only counted."""
        new = self._round_of(sample)
        if new is None:
            self.rejected += 1
            return
        if self._is_of_earlier_segment(sample):
            self.late += 1
            return
        self._detect_reported_jump(sample)
        view = self._get_or_add_view(sample)
        late = view.late_rounds
        if view.add(new):
            self._vote_for_jump(sample.server)
        self.late += view.late_rounds - late
        if len(self._views) > 1:
            self._check_against_majority(view, new.received_ns)

    def _round_of(self, sample: Sample) -> Round | None:
        granularity_ns = self._config.granularity_ns or 0
        if not sample.is_plausible(granularity_ns):
            return None
        return Round(
            sample.t1_ns,
            sample.t2_ns - sample.t1_ns + granularity_ns,
            sample.t4_ns,
            sample.t3_ns - sample.t4_ns - granularity_ns,
            sample.t3_ns,
            abs(sample.arrival_ns - sample.t3_ns),
        )

    # -- segments ----------------------------------------------------------------------------------

    def _is_of_earlier_segment(self, sample: Sample) -> bool:
        """Return whether the source's own reports assign the sample to an earlier segment."""
        if self._reported_segment is not None and sample.segment < self._reported_segment:
            # A sample that is not older than the segment shows that the source has restarted its
            # count.
            return sample.t3_ns < self._reported_since_ns
        return (
            sample.t3_ns < self._mono_since_ns
            and sample.mono_ns != UNKNOWN_MONO
            and self._former_mono_ns != UNKNOWN_MONO
            and abs(sample.mono_ns - self._former_mono_ns) <= STEP_NS
            and abs(sample.mono_ns - self._mono_ns) > STEP_NS
        )

    def _detect_reported_jump(self, sample: Sample) -> None:
        """Begin a segment if the sample reports a jump of the source's clock."""
        stepped = False
        if sample.segment != self._reported_segment:
            stepped = self._reported_segment is not None
            self._reported_segment = sample.segment
            self._reported_since_ns = min(sample.t3_ns, sample.arrival_ns)
        mono_ns = sample.mono_ns
        if mono_ns != UNKNOWN_MONO:
            if self._mono_ns == UNKNOWN_MONO:
                self._mono_ns = mono_ns
                self._mono_since_ns = self._mono_reported_ns = sample.t3_ns
            elif stepped or abs(mono_ns - self._mono_ns) > STEP_NS:
                self._former_mono_ns, self._mono_ns = self._mono_ns, mono_ns
                self._mono_since_ns = self._mono_reported_ns = sample.t3_ns
                stepped = True
            elif sample.t3_ns > self._mono_reported_ns:
                self._mono_ns, self._mono_reported_ns = mono_ns, sample.t3_ns
        if stepped:
            self.jumps += 1
            self.begin_segment()

    def begin_segment(self) -> None:
        """Begin a segment and drop all earlier rounds, because the clock has jumped."""
        self.segment += 1
        self._jumped.clear()
        for view in self._views.values():
            view.reset()

    def _vote_for_jump(self, server: str) -> None:
        """Record that a server's rounds show a jump. A majority of servers ends the segment."""
        views = self._views
        if not self._jumped:
            self._electors = [name for name, view in self._voting_views().items() if view.answers]
        if server not in self._jumped:
            self._jumped.append(server)
        electors = [name for name in self._electors if name in views]
        jumped = [name for name in electors if name in self._jumped]
        if len(jumped) < majority(len(electors)):
            return
        for name in electors:
            if name not in jumped:
                views[name].restart_after_jump()
        self._jumped.clear()
        self.segment += 1
        self.jumps += 1

    # -- views -------------------------------------------------------------------------------------

    def _get_or_add_view(self, sample: Sample) -> ServerView:
        view = self._views.get(sample.server)
        if view is None:
            if len(self._views) == MAX_SERVERS:
                self._drop_idlest_view()
            view = self._views[sample.server] = ServerView(self._config)
        view.arrival_ns = sample.arrival_ns
        return view

    def _drop_idlest_view(self) -> None:
        """Drop the view that has gone longest without a sample."""
        _, idle = min((view.arrival_ns, name) for name, view in self._views.items())
        self._past_false += self._views.pop(idle).false_rounds
        if idle in self._jumped:
            self._jumped.remove(idle)

    def _voting_views(self) -> dict[str, ServerView]:
        """Return the views that have a vote.

        A server has none if it was silent for `STALE_AFTER_NS` while others answered, because it
        has probably been removed or renamed.
        """
        views = self._views
        if len(views) < 2:
            return views
        since_ns = max(view.arrival_ns for view in views.values()) - STALE_AFTER_NS
        return {name: view for name, view in views.items() if view.arrival_ns >= since_ns}

    def _check_against_majority(self, view: ServerView, ts_ns: int) -> None:
        """Count the view's new round as false if the view contradicts the majority at `ts_ns`."""
        if not view.answers:
            return
        views = [each for each in self._voting_views().values() if each.answers]
        spans = [each.span(cell_start(ts_ns)) for each in views]
        agreeing = find_agreeing_spans(spans, majority(len(spans)))
        if agreeing and views.index(view) not in agreeing:
            self._outvoted += 1

    # -- answers -----------------------------------------------------------------------------------

    def cell(self, ts_ns: int) -> ClockCell:
        """Return the cell that contains `ts_ns`, which need not be near any round."""
        start_ns = cell_start(ts_ns)
        present = self._voting_views()
        servers = max(self._config.servers, len(present))
        spans = [view.span(start_ns) for view in present.values() if view.answers]
        if len(spans) < majority(servers):
            spans = [view.span(start_ns) for view in self._views.values() if view.answers]
        if not spans:
            return ClockCell(start_ns, UNSYNCED)
        if len(spans) < majority(servers):
            return cell_over(start_ns, enclose_spans(UNSYNCED, spans, spans))
        span = spans[0] if len(spans) == 1 else combine(spans, (servers - 1) // 2)
        cell = cell_over(start_ns, span)
        if max(cell.error_ns, cell.error_ns + cell.error_step_ns) > self._config.max_error_ns:
            cell.state = UNSYNCED
        return cell

    def skew_ppb(self) -> int | None:
        """Return the median skew of the views in ppb, for display; None if no view has one."""
        rates = sorted(view.belief.rate_ppb() for view in self._views.values() if view.answers)
        return rates[len(rates) // 2] if rates else None

    def fresh(self, field: str) -> ServerView:
        return ServerView(self._config)


def find_agreeing_spans(spans: list[OffsetSpan], quorum: int) -> list[int]:
    """Return the indexes of the spans that, at each end, contain a point that `quorum` cover."""
    at_start = find_agreeing_intervals(
        [(low_ns, high_ns) for _, (low_ns, _, high_ns), _ in spans], quorum
    )
    at_end = find_agreeing_intervals(
        [(low_ns, high_ns) for _, _, (low_ns, _, high_ns) in spans], quorum
    )
    return [at for at in at_start if at in at_end]


def combine(spans: list[OffsetSpan], false: int) -> OffsetSpan:
    """Return bounds that are true if at most `false` of the views are false.

    Both ends use the same views. The maximum of convex bounds is convex, so the straight line
    between the ends is never tighter than the exact bounds.
    """
    if not find_agreeing_spans(spans, majority(len(spans))):
        return enclose_spans(SUSPECT, spans, spans)
    true = max(1, len(spans) - false)
    agreeing = [spans[at] for at in find_agreeing_spans(spans, true)]
    one_is_true = len(agreeing) - true + 1
    lowest = sorted(agreeing, key=lambda span: span.start[2] + span.end[2])[:one_is_true]
    highest = sorted(agreeing, key=lambda span: -span.start[0] - span.end[0])[:one_is_true]
    span = enclose_spans(state_of(agreeing), highest, lowest)
    if span.start[0] > span.start[2] or span.end[0] > span.end[2]:
        return enclose_spans(SUSPECT, spans, spans)
    return span


def enclose_spans(state: str, below: list[OffsetSpan], above: list[OffsetSpan]) -> OffsetSpan:
    """Return the span from the lowest bound in `below` to the highest bound in `above`."""
    start = enclose_ranges([span.start for span in below], [span.start for span in above])
    return OffsetSpan(
        state, start, enclose_ranges([span.end for span in below], [span.end for span in above])
    )


def enclose_ranges(below: list[Range], above: list[Range]) -> Range:
    low_ns = min([low_ns for low_ns, _, _ in below])
    high_ns = max([high_ns for _, _, high_ns in above])
    guess_ns = sorted([guess_ns for _, guess_ns, _ in below])[len(below) // 2]
    return low_ns, min(max(low_ns, guess_ns), high_ns), high_ns


def cell_over(start_ns: int, span: OffsetSpan) -> ClockCell:
    """Return the cell whose offset and error cover the span at every timestamp."""
    state, (low_ns, offset_ns, high_ns), (low_end_ns, offset_end_ns, high_end_ns) = span
    error_ns = max(high_ns - offset_ns, offset_ns - low_ns)
    error_end_ns = max(high_end_ns - offset_end_ns, offset_end_ns - low_end_ns)
    return ClockCell(
        start_ns,
        state,
        offset_ns,
        error_ns + CELL_ROUNDING_NS,
        offset_end_ns - offset_ns,
        error_end_ns - error_ns,
    )


def state_of(spans: list[OffsetSpan]) -> str:
    states = [span.state for span in spans]
    if states.count(SUSPECT) >= majority(len(states)):
        return SUSPECT
    return SYNCED if SYNCED in states else STALE
