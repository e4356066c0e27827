"""REORDER: emits the events of each source in the order of its sequence numbers.

After the start of a source, its in-order events are never delayed. An event after a gap is buffered
until the gap is filled or its deadline passes. `topology.order.reorder.source` handles one source,
and `topology.order.reorder.shell` the table of all sources. This module takes events in and
enforces the bounds.

Guarantees
* Per (source, epoch), the emitted numbers rise, except those of events marked late.
* Each number from the start up to the next expected one is in exactly one state. It is emitted,
  declared lost, or below the memory of the ledger.
* No event waits longer than `max_wait` for a gap. Once per epoch, events may also wait up to
  `max_wait` for the start (`start: auto`).

The bounds are settings: buffered events per source (`max_held`) and in all (`max_held_total`,
`max_held_bytes`). If a bound is exceeded, the oldest gap of the fullest source is declared, reason
`overflow`. Sources with buffered events are not forgotten, so the table of sources can exceed
`max_sources` by up to `max_held_total`.

Cost: O(1) per event in order, else O(log gaps); O(log sources) when a bound is exceeded. Memory:
buffered events, gaps, lost ranges, about 1 kB per source, and 3 kB per source without epochs
(`topology.order.reorder.recent`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final
from zlib import crc32

from topology.base.event import DATA, DEAD, Event
from topology.base.operator import Changes, Figure, Figures, Plain, total
from topology.base.outcome import OVERFLOW, Step, make_dead_letter
from topology.order.reorder.buffer import Fullest
from topology.order.reorder.locate import locate
from topology.order.reorder.recent import (
    FIRST_PAGE,
    LAST,
    MOST,
    NEVER_QUICK,
    PAGE,
    SIZE,
    Recent,
    digest_of,
)
from topology.order.reorder.sequence import UNKNOWN, UNSTARTED, OpenGap
from topology.order.reorder.settings import ReorderConfig
from topology.order.reorder.shared import SHARED, Shared
from topology.order.reorder.shell import BUFFER, SOURCES, Shell
from topology.order.reorder.source import SOURCE, NumberedBuffer
from topology.state.histogram import PPM
from topology.state.saved import INT, Shape, ShapeRefused
from topology.state.sources import SourceTable
from topology.state.tables import Table

REORDER: Final = Shape("reorder", 1, _now_ns=INT, _sources=SOURCES)


class Pool(Table[str, Shared]):
    """A table of one row, the values that all sources share.

    The row is saved only when a source has changed.
    """

    def __init__(self, shared: Shared) -> None:
        super().__init__("pool/", SHARED, {"": shared})

    def fresh(self, key: str) -> Shared:
        return self.rows[key]


FIGURES: Final[Mapping[str, Figure]] = {
    "sources": Figure("Sources known to REORDER"),
    "held": Figure("Events and dead letters buffered behind a gap or before the start of a source"),
    "held_bytes": Figure("Payload of the buffered events, in bytes"),
    "overflows": total("Gaps and starts given up because a buffer was full"),
    "waited_ns": total("Time that events spent in the buffer, added up"),
    "filled": total("Missing sequence numbers that arrived in time"),
    "filled_late": total("Missing sequence numbers that arrived after their gap was declared"),
    "target_ppm": Figure(
        "Share of missing sequence numbers that should arrive in time, of those that arrive"
    ),
    "epochs_inferred": total("Epochs that were inferred because their source writes none"),
    "forgotten": total("Sources forgotten at a bound or after forget_after"),
    "ids": Figure("Ids of events without numbers that are remembered"),
    "ids_forgotten": total("Ids forgotten before id_memory had passed because of max_ids"),
}


class Reorder(Shell[NumberedBuffer]):
    """The operator that orders sources by their sequence numbers.

    `make` creates the buffer of a source, whose saved form is `shape`.
    """

    def __init__(
        self,
        stream: str,
        config: ReorderConfig,
        make: Callable[..., NumberedBuffer] = NumberedBuffer,
        shape: Shape = SOURCE,
    ) -> None:
        self._shared = Shared(stream, config)
        bounds = config.max_sources, config.forget_after_ns
        sources = SourceTable(BUFFER, shape, partial(make, shared=self._shared), *bounds)
        self._pool = Pool(self._shared)
        tables = (self._shared.lost, self._shared.recents, self._pool)
        super().__init__(sources, self._shared, REORDER, tables)
        self._max_held = config.max_held
        self._fullest = Fullest(self._table, self._shared, config)

    def begin_midstream(self) -> None:
        """Begin in the middle of the stream.

        A new source then does not lack the numbers before its first one, because other operators
        have processed them.
        """
        self._shared.start = UNSTARTED

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:  # noqa: C901, PLR0912, PLR0915
        # This is one function, for speed, because it runs for every event. The branches without
        # `_take` are the frequent cases. There, a number of the current epoch is the next one, in a
        # known gap, or after a gap.
        step = Step(now_ns)
        batch: list[Event] = events if isinstance(events, list) else list(events)
        released = step.released
        buffers = self._table
        shared = self._shared
        takes_plain = self.takes_plain and not shared.modulus and not shared.ignores_epoch
        max_jump = shared.max_jump
        infers = shared.infers
        fullest = self._fullest
        max_held_total, max_held_bytes = fullest.max_held, fullest.max_bytes
        for event in batch:
            at_ns = event.at_ns
            if at_ns > self._now_ns:
                if self._due_ns < at_ns:
                    self._fire(at_ns - 1, step)
                self._now_ns = at_ns
            buffer = buffers.get(event.source)
            if buffer is None:
                buffer = self._add_buffer(event)
            event.source = buffer.source  # All events of a source share one string.
            buffer.last_arrival_ns = at_ns
            if not buffer.dirty:
                self._sources.mark(buffer)
            kind = event.kind
            if kind == DATA:
                buffer.received += 1
            current = buffer.current
            number = event.seq
            epoch = event.epoch
            if (
                not takes_plain
                or (epoch != current.epoch and (epoch >= 0 or event.ts_ns < buffer.begun_ns))
                or kind == DEAD
                or buffer.later
                or buffer.trial
            ):
                self._take(buffer, event, step)
                continue
            recent = buffer.recent
            if recent is None and epoch < 0 and infers:
                recent = self._remember(buffer, event)
            ahead = number - current.hi
            if ahead == 1 and number == current.next:
                # Nothing is buffered, so the event is emitted at once. Its `at_ns` need not be set:
                # it is already the time of emission.
                event.epoch = current.epoch
                current.next = number + 1
                current.hi = number
                ts_ns = event.ts_ns
                if ts_ns > current.newest_ts_ns:
                    current.newest_ts_ns = ts_ns
                elif ts_ns < current.last_ts_ns:
                    buffer.note_fall(current.last_ts_ns - ts_ns)
                    if ts_ns < current.oldest_ts_ns:
                        current.oldest_ts_ns = ts_ns
                current.last_ts_ns = ts_ns
                if kind == DATA:
                    buffer.released += 1
                released.append(event)
                if recent is None:
                    continue
                if number < recent.quick_from:
                    recent.remember_last(event)
                    continue
                # The effect is that of `note`, whose page need not be recorded here.
                place = PAGE + (number & LAST)
                recent.stamps[place] = ts_ns
                recent.digests[place] = event.digest or (
                    crc32(value)
                    if type(value := event.value) is bytes and not event.type
                    else digest_of(event)
                )
                continue
            if not buffer.blocked or current.next < 0 or not current.gaps:
                self._take(buffer, event, step)
                continue
            # There is a gap, and MERGE knows that events are buffered.
            if ahead == 1:  # The event follows the buffered ones.
                current.gaps[-1].behind.append(event)
                current.hi = number
            elif 1 < ahead <= max_jump:  # The event reveals one more gap.
                deadline_ns = at_ns + buffer.ensure_timeout().open()
                gap = OpenGap(current.hi + 1, number - 1, at_ns, deadline_ns, behind=[event])
                current.gaps.append(gap)
                current.hi = number
            elif number == current.next:  # The event fills the first number of the first gap.
                event.epoch = current.epoch
                buffer.accept(current, event, step)
                self._arm(buffer)
                continue
            # The event fills another number.
            elif ahead < 0 and (known_ns := current.fill_gap(event)) != UNKNOWN:
                shared.filled += 1
                buffer.ensure_timeout().note_filled(at_ns - known_ns)
            else:
                self._take(buffer, event, step)
                continue
            # The effect is that of `note_stamp`, `note_oldest` and `recent.note`.
            ts_ns = event.ts_ns
            if ts_ns > current.newest_ts_ns:
                current.newest_ts_ns = ts_ns
            if recent is not None:
                if ts_ns < current.oldest_ts_ns:
                    current.oldest_ts_ns = ts_ns
                quick_from = recent.quick_from
                if (
                    quick_from <= number
                    and quick_from != NEVER_QUICK
                    and number > current.hi - SIZE
                ):
                    place = PAGE + (number & LAST)
                    recent.stamps[place] = ts_ns
                    recent.digests[place] = event.digest or digest_of(event)
                    if number < recent.unsaved:
                        recent.unsaved = number
                else:
                    recent.note(event, current.hi)
            event.epoch = current.epoch
            shared.kept.append(event)
            if kind != DATA:
                buffer.words += 1
            buffer.held += 1
            shared.held += 1
            value = event.value
            if isinstance(value, bytes):
                buffer.held_bytes += len(value)
                shared.held_bytes += len(value)
            if (  # Otherwise `_check_bound` would do nothing.
                buffer.held > self._max_held
                or shared.held > max_held_total
                or shared.held_bytes > max_held_bytes
                or fullest.entries
            ):
                self._check_bound(buffer, at_ns, step)
                self._arm(buffer)
        self._advance_time(now_ns, step)
        step.take_kept(shared.kept, shared.freed)
        return step

    def changes(self) -> Changes:
        if self._sources.has_changes:
            self._pool.note("")
        for buffer in self._sources.iter_changed():
            recent, hi = buffer.recent, buffer.newest().hi
            if recent is not None:
                self._shared.recents.mark_pages_changed(buffer.source, recent.unsaved, hi)
                recent.unsaved = hi + 1
                if recent.is_first_unsaved:
                    self._shared.recents.note((FIRST_PAGE, buffer.source))
                    recent.is_first_unsaved = False
        return super().changes()

    # -- Other events ------------------------------------------------------------------------------

    def _take(self, buffer: NumberedBuffer, event: Event, step: Step) -> None:
        shared = self._shared
        if shared.modulus and not shared.first <= event.seq <= shared.last:
            self._refuse(buffer, event, step)
            return
        if event.epoch >= 0 and shared.ignores_epoch:
            event.epoch = -1
        if event.epoch < 0 and shared.infers and buffer.recent is None:
            self._remember(buffer, event)
        before = buffer.held
        buffer.take(event, step)
        if buffer.held > before:
            self._check_bound(buffer, event.at_ns, step)
        self._arm(buffer)

    def _refuse(self, buffer: NumberedBuffer, event: Event, step: Step) -> None:
        if event.kind == DEAD:
            return
        buffer.dead += event.kind == DATA
        shared = self._shared
        detail = (
            f"number {event.seq:d} does not fit the stream's reorder.seq_bits"
            f" (largest {shared.last}); raise seq_bits or fix the source"
        )
        if shared.config.seq_range is not None:
            detail = (
                f"number {event.seq:d} is not in the stream's reorder.seq_range"
                f" ({shared.config.seq_range}); correct seq_range or the source"
            )
        step.reports.append(make_dead_letter(event, event.at_ns, "seq_range", detail))

    def _begin(self, buffer: NumberedBuffer, event: Event) -> None:
        if not self._table:
            self._shared.blocking_until_ns = max(
                self._shared.blocking_until_ns, event.at_ns + self._shared.max_wait_ns
            )
        if event.epoch > 0 and not self._shared.ignores_epoch:
            buffer.current = buffer.make_sequence(event.epoch, active=True)

    def _remember(self, buffer: NumberedBuffer, event: Event) -> Recent:
        """Begin to remember a source; at the bound, drop the half that was silent longest."""
        recents = self._shared.recents
        if len(recents.by_source) >= MOST:
            known = [self._table[source] for source in recents.by_source]
            known.sort(key=lambda each: (each.last_arrival_ns, each.source))
            for each in known[: MOST // 2]:
                self._sources.mark(each)
                each.recent = None
                recents.drop(each.source)
        return buffer.begin_remembering(event)

    # -- Bounds ------------------------------------------------------------------------------------

    def _check_bound(self, buffer: NumberedBuffer, now_ns: int, step: Step) -> None:
        while buffer.held > self._max_held:
            self._shared.overflows += 1
            buffer.give_up_oldest(OVERFLOW, now_ns, step)
        self._fullest.note(buffer)
        while (most := self._fullest.over()) is not None:
            self._sources.mark(most)
            self._shared.overflows += 1
            most.give_up_oldest(OVERFLOW, now_ns, step)
            self._arm(most)

    # -- State -------------------------------------------------------------------------------------

    def restoring(self, state: Mapping[str, Plain], held: Sequence[Event]) -> Iterator[int]:
        yield from super().restoring(state, held)
        for source, epoch in self._shared.lost.ledgers:
            buffer = self._table.get(source)
            if buffer is None or all(each.epoch != epoch for each in buffer.list_sequences()):
                raise ShapeRefused(f"source {source:.60} lacks epoch {epoch} of its lost numbers")
        for source in self._shared.recents.by_source:
            buffer = self._table.get(source)
            if buffer is None or buffer.recent is None:
                raise ShapeRefused(
                    f"source {source:.60} remembers no numbers, but has pages of them"
                )

    # -- Diagnosis ---------------------------------------------------------------------------------

    def locate(self, source: str, epoch: int, seq: int) -> dict[str, Plain] | None:
        buffer = self._table.get(source)
        return None if buffer is None else locate(buffer, epoch, seq)

    def figures(self) -> Figures:
        figures = super().figures()
        figures["filled"] = self._shared.filled
        figures["filled_late"] = self._shared.outlived
        figures["epochs_inferred"] = self._shared.inferred
        config = self._shared.config
        if config.rule == "miss":
            figures["target_ppm"] = PPM - config.miss_target_ppm
        return figures

    def counts_of(self, source: str) -> Figures:
        buffer = self._table.get(source)
        if buffer is None:
            return {}
        return {
            "received": buffer.received,
            "late": buffer.late,
            "duplicate": buffer.duplicate,
            "dead": buffer.dead,
        }
