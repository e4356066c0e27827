"""What has been reported about the clocks of all sources, as far as it is still needed.

The drift table is the same for every partition of a process, and grows by itself: the
shell reads `clock.offsets`, a replay its clock lines. Operators look up what concerns
their sources; which samples apply to an event follows from arrival times alone, never
from when the table was filled.

Kept per source, in the order of arrival: every sample since the oldest instant that
somebody may still ask about, but at least the `KEPT` newest, at most `MAX_SAMPLES`.
Or, where the table is asked to (`fold`): what has been taken by all who know the source is kept as
the model that it makes (`topology.clock.models`), and the `KEPT` newest as they are.
At most `max_sources` known sources, those in use apart; past that the one
reported longest ago is forgotten. What is cut or forgotten is
missed only by a source whose events are far behind.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, Final

from topology.clock.models import Folded, Rounds
from topology.model.idle import LongestIdle
from topology.model.sample import Declared, Sample

KEPT: Final = 64
"""Samples of a source that stay however old they are: a full window of the model."""

MAX_SAMPLES: Final = 4_096
MAX_DECLARED: Final = 1_024
MAX_SOURCES: Final = 200_000

NONE_YET: Final[list[Any]] = []
"""In place of each list of a source that nothing was reported about; nobody changes it."""

Place = tuple[int, int]
"""(arrival, offset in the topic) of a sample or a declared offset."""


class SampleTrack:
    """What was reported about one source. `version` rises with each report; `users` is how
    many operators look at it. `folded`: what came before `samples`, for each of the settings that
    the table was given."""

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
        """Samples behind `place` that arrived up to `until_ns`, both in arrival order."""
        begin = bisect_right(self.samples, place, key=place_of)
        end = bisect_left(self.samples, (until_ns + 1, -1), key=place_of)
        return self.samples[begin:end]

    def folded_by(self, rounds: Rounds) -> Folded | None:
        """For one who has taken nothing yet."""
        return next((each for each in self.folded if each.rounds == rounds), None)

    def next_after(self, place: Place) -> Sample | None:
        at = bisect_right(self.samples, place, key=place_of)
        return self.samples[at] if at < len(self.samples) else None


class DriftTable:
    """See the module's docstring."""

    def __init__(self, max_sources: int = MAX_SOURCES) -> None:
        self._max_sources = max_sources
        self._tracks: dict[str, SampleTrack] = {}
        self._longest_idle = LongestIdle()
        self._sources_known = 0
        self.dropped: list[Sample | Declared] | None = None
        """Where it is a list: what is no longer kept, for whoever keeps a copy."""

    def __contains__(self, source: str) -> bool:
        return source in self._tracks

    def __len__(self) -> int:
        return len(self._tracks)

    def use(self, source: str) -> SampleTrack:
        """What was and will be reported about the source; `SampleTrack.users` counts it."""
        track = self._tracks.setdefault(source, SampleTrack())
        track.users += 1
        return track

    def leave(self, source: str) -> None:
        """One operator less looks at it; an unused track without reports is dropped."""
        track = self._tracks[source]
        track.users -= 1
        if not track.users and not track.version:
            del self._tracks[source]

    def add(self, news: Sample | Declared) -> None:
        """One more word; in the order of its topic for each source."""
        track = self._tracks.setdefault(news.source, SampleTrack())
        if isinstance(news, Sample):
            samples = track.samples
            if samples and place_of(news) <= place_of(samples[-1]):
                return  # read twice
            if samples is NONE_YET:
                samples = track.samples = []
            samples.append(news)
            if len(samples) > MAX_SAMPLES:
                self._drop(samples, 1)
                track.folded = []  # which the cut one would have come next to
        else:
            if news in track.declared:
                return
            track.declared = sorted([*track.declared, news], key=in_force)
            self._drop(track.declared, max(0, len(track.declared) - MAX_DECLARED))
        track.version += 1
        if track.version == 1:
            self._longest_idle.note(news.source, news.arrival_ns)
            self._sources_known += 1
            self._make_room(news.source)
        track.last_arrival_ns = max(track.last_arrival_ns, news.arrival_ns)

    def words(self) -> list[Sample | Declared]:
        """All that is kept; added to an empty table in this order they make the same."""
        found: list[Sample | Declared] = []
        for track in self._tracks.values():
            found += [*track.samples, *track.declared]
        return found

    def forget_all(self) -> None:
        """The samples are read again, from an earlier time on. Who has taken some already
        goes on behind them."""
        for track in self._tracks.values():
            self._drop(track.samples, len(track.samples))

    def forget_before(self, arrival_ns: int) -> None:
        """Nobody will ask any more for what arrived before; O(sources)."""
        for track in self._tracks.values():
            samples = track.samples
            if len(samples) > KEPT and samples[0].arrival_ns < arrival_ns:
                old = bisect_left(samples, (arrival_ns, -1), key=place_of)
                self._drop(samples, min(old, len(samples) - KEPT))

    def long(self, least: int) -> Iterator[str]:
        """The sources in use of which more than `least` samples are kept; O(sources)."""
        for source, track in self._tracks.items():
            if track.users and len(track.samples) > least:
                yield source

    def fold(self, source: str, until: Place, rounds: Sequence[Rounds]) -> bool:
        """Its samples up to that place, but for the newest, are folded in each of these ways,
        which are the same each time. Whether there were any."""
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
        """What was folded in another table, which had the same words; they may have been added
        here with others."""
        track = self._tracks.get(source)
        if track is not None:
            track.folded = [*track.folded, folded]
            self._drop(track.samples, bisect_right(track.samples, folded.place, key=place_of))

    def folded(self, source: str) -> Sequence[Folded]:
        track = self._tracks.get(source)
        return () if track is None else track.folded

    def _drop(self, words: list[Any], count: int) -> None:
        """The first so many."""
        if self.dropped is not None:
            self.dropped += words[:count]
        del words[:count]

    def _make_room(self, newest: str) -> None:
        if self._sources_known > self._max_sources:
            longest = self._longest_idle.longest(self._tracks, newest, 1 << 63)
            if longest is not None:
                self._sources_known -= 1
                track = self._tracks.pop(longest)
                self._drop(track.samples, len(track.samples))
                self._drop(track.declared, len(track.declared))


def place_of(word: Sample | Declared) -> Place:
    return word.arrival_ns, word.offset


def in_force(declared: Declared) -> tuple[int, int, int]:
    """From when on it holds, with the later word behind the earlier."""
    return max(declared.at_ns, declared.arrival_ns), declared.arrival_ns, declared.offset
