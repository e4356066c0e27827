"""Stores the clock reports of all sources for as long as an operator may need them.

A report is a sample (one round of time sync) or a declared offset. All partitions of a process
share the drift table. In a worker, the driver fills it from the topic `clock.offsets`; in a replay,
from the clock lines of the input. Operators look up their own sources. Only the arrival times of
samples and events decide which samples apply, so the table may be filled at any time.

The caller names the time before which no operator needs samples (`forget_before`). Older ones are
dropped, except the `KEPT` newest of each source. At most `MAX_SAMPLES` of a source are stored.
Samples that all operators have taken can be folded: `fold` replaces them by the clock model
computed from them (`topology.order.clock.models`). The `KEPT` newest samples are never folded.

The table has at most `max_sources` sources, but never drops one that an operator uses. Beyond that
number it drops the source whose last report is oldest. Events that come from this source later are
treated as if these reports had never arrived.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, Final

from topology.base.idle import LongestIdle
from topology.base.native import mypyc_attr
from topology.base.sample import Declared, Sample
from topology.order.clock.models import Folded, Rounds

KEPT: Final = 64
"""The number of a source's newest samples that are kept whatever their age.

It is about twice the number of samples in a default `sync_window`.
"""

MAX_SAMPLES: Final = 4_096
MAX_DECLARED: Final = 1_024
MAX_SOURCES: Final = 200_000

NONE_YET: Final[list[Any]] = []
"""An empty list that all sources without reports share. It must not be changed."""

Place = tuple[int, int]
"""The position of a report: its arrival time and its offset in the topic."""


@mypyc_attr(acyclic=True)
class SampleTrack:
    """The clock reports about one source.

    `version` rises with each report, and `users` counts the operators that use the track. `folded`
    has the models that replace the oldest samples, one for each entry of `rounds` given to `fold`.
    """

    __slots__ = ("declared", "folded", "last_arrival_ns", "samples", "users", "version")

    def __init__(self) -> None:
        self.folded: list[Folded] = NONE_YET
        self.samples: list[Sample] = NONE_YET
        self.declared: list[Declared] = NONE_YET
        self.version = 0
        self.users = 0
        self.last_arrival_ns = -1

    def busy(self) -> bool:
        return self.users > 0

    def after(self, place: Place, until_ns: int) -> list[Sample]:
        """Return the samples after `place` that arrived up to `until_ns`, in arrival order."""
        begin = bisect_right(self.samples, place, key=place_of)
        end = bisect_left(self.samples, (until_ns + 1, -1), key=place_of)
        return self.samples[begin:end]

    def next_sample_after(self, place: Place) -> Sample | None:
        at = bisect_right(self.samples, place, key=place_of)
        return self.samples[at] if at < len(self.samples) else None


class DriftTable:
    """The clock reports about all sources, shared by all partitions of a process."""

    def __init__(self, max_sources: int = MAX_SOURCES) -> None:
        self._max_sources = max_sources
        self._tracks: dict[str, SampleTrack] = {}
        self._longest_idle = LongestIdle(self._tracks)
        self._sources_known = 0
        self.dropped: list[Sample | Declared] | None = None
        """The reports that have been dropped, or None if they are not recorded.

        A driver that stores a copy of the table sets the list, and empties it after each copy.
        """

    def __contains__(self, source: str) -> bool:
        return source in self._tracks

    def __len__(self) -> int:
        return len(self._tracks)

    def acquire_track(self, source: str) -> SampleTrack:
        """Return the track of the source for one more operator. Later reports are added to it."""
        track = self._tracks.setdefault(source, SampleTrack())
        track.users += 1
        return track

    def release_track(self, source: str) -> None:
        """Remove one user from the source's track, and drop the track if it is unused and empty."""
        track = self._tracks[source]
        track.users -= 1
        if not track.users and not track.version:
            del self._tracks[source]

    def add(self, news: Sample | Declared) -> None:
        """Add a report. The reports of each source must be added in the order of the topic."""
        track = self._tracks.setdefault(news.source, SampleTrack())
        if isinstance(news, Sample):
            samples = track.samples
            if samples and place_of(news) <= place_of(samples[-1]):
                return  # The sample has already been added.
            if samples is NONE_YET:
                samples = track.samples = []
            samples.append(news)
            if len(samples) > MAX_SAMPLES:
                self._drop(samples, 1)
                track.folded = []  # The models lack the dropped sample, so they are incomplete.
        else:
            if news in track.declared:
                return
            track.declared = sorted([*track.declared, news], key=effective_key)
            self._drop(track.declared, max(0, len(track.declared) - MAX_DECLARED))
        track.version += 1
        if track.version == 1:
            self._longest_idle.note(news.source, news.arrival_ns)
            self._sources_known += 1
            self._make_room(news.source)
        track.last_arrival_ns = max(track.last_arrival_ns, news.arrival_ns)

    def words(self) -> list[Sample | Declared]:
        """Return all stored reports, in an order in which they can be added to an empty table."""
        found: list[Sample | Declared] = []
        for track in self._tracks.values():
            found += [*track.samples, *track.declared]
        return found

    def forget_all(self) -> None:
        """Drop all samples, because the topic is read again from an earlier offset.

        An operator continues after the last sample that it has taken.
        """
        for track in self._tracks.values():
            self._drop(track.samples, len(track.samples))

    def forget_before(self, arrival_ns: int) -> None:
        """Drop samples that arrived before `arrival_ns`, except the `KEPT` newest of each source.

        No operator may ask for the dropped samples again. Cost: O(sources).
        """
        for track in self._tracks.values():
            samples = track.samples
            if len(samples) > KEPT and samples[0].arrival_ns < arrival_ns:
                old = bisect_left(samples, (arrival_ns, -1), key=place_of)
                self._drop(samples, min(old, len(samples) - KEPT))

    def long(self, least: int) -> Iterator[str]:
        """Yield the sources in use that have more than `least` samples. Cost: O(sources)."""
        for source, track in self._tracks.items():
            if track.users and len(track.samples) > least:
                yield source

    def fold(self, source: str, until: Place, rounds: Sequence[Rounds]) -> bool:
        """Fold the samples up to `until` into one model per entry of `rounds`.

        The `KEPT` newest samples are not folded. `rounds` must be the same in each call for a
        source. Return whether any samples were folded.
        """
        track = self._tracks[source]
        samples = track.samples
        count = min(bisect_right(samples, until, key=place_of), len(samples) - KEPT)
        if count <= 0:
            return False
        if not track.folded:
            track.folded = [Folded(each) for each in rounds]
        for each in track.folded:
            for sample in samples[:count]:
                each.take(sample)
        self._drop(samples, count)
        return True

    def put(self, source: str, folded: Folded) -> None:
        """Store a model that another table has folded from the same reports.

        Later samples that this table has already received are kept.
        """
        track = self._tracks.get(source)
        if track is not None:
            track.folded = [*track.folded, folded]
            self._drop(track.samples, bisect_right(track.samples, folded.place, key=place_of))

    def find_folded(self, source: str) -> Sequence[Folded]:
        track = self._tracks.get(source)
        return () if track is None else track.folded

    def _drop(self, words: list[Any], count: int) -> None:
        """Drop the first `count` entries of a list of reports."""
        if self.dropped is not None:
            self.dropped += words[:count]
        del words[:count]

    def _make_room(self, newest: str) -> None:
        if self._sources_known > self._max_sources:
            longest = self._longest_idle.pop_longest(newest, 1 << 63)
            if longest is not None:
                self._sources_known -= 1
                track = self._tracks.pop(longest)
                self._drop(track.samples, len(track.samples))
                self._drop(track.declared, len(track.declared))


def place_of(word: Sample | Declared) -> Place:
    return word.arrival_ns, word.offset


def effective_key(declared: Declared) -> tuple[int, int, int]:
    """Return a sort key: the time from which a declared offset applies, then its `Place`."""
    return max(declared.at_ns, declared.arrival_ns), declared.arrival_ns, declared.offset
