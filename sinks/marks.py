"""Notices a store that began anew, by marks that the store keeps next to the results.

A store can lose results that the consumer group has read. For example, a table is dropped, an empty
server stands at the address, or a backup is restored. The offsets alone would not show it. So a
sink writes a mark for each partition (`sinks.sink.Progress`): the next offset, together with the
results before it. Offsets are committed later. In a sound store no mark is behind the committed
offset.

A mark that is absent or behind is handled as `WhenBehind` says. An older version may have filled a
store, which then has results but no marks. Such a store is adopted once: its marks begin at the
offsets of the group.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Final

from sinks.sink import Marks, MarkStep, Progress, Reader, Sink, SinkUnusable

MOST_NAMED: Final = 3
"""The maximum number of partitions that a message names."""

log = logging.getLogger("inorder.sink")


class WhenBehind(Enum):
    """The ways to treat a store whose mark is behind the group's offset."""

    REFUSE = auto()
    REFILL = auto()
    """Read again from the mark."""

    ADOPT = auto()
    """Move the mark to the offset, and go on without the results between."""


class Bookmarks:
    """Compares the marks of a store with the offsets of a reader, and moves them."""

    def __init__(
        self, sink: Sink, reader: Reader, when_behind: WhenBehind = WhenBehind.REFUSE
    ) -> None:
        self._sink = sink
        self._reader = reader
        self._when_behind = when_behind
        self._known: dict[int, int] = {}
        """The lowest position that the mark of each compared partition can have."""

    def compare(self, offsets: Mapping[int, int]) -> dict[int, int]:
        """Compare the marks with the next offsets of a group, 0 for none.

        Returns the offsets from which partitions must be read again. Raises SinkUnusable if the
        store is refused, and the errors of the sink.
        """
        marks = self._sink.marks(self._reader)
        needed = {each: max(next_, self._known.get(each, 0)) for each, next_ in offsets.items()}
        behind = {
            each: next_ for each, next_ in needed.items() if marks.positions.get(each, 0) < next_
        }
        adopted = self._adopt(marks, behind)
        again = {each: marks.positions.get(each, 0) for each in behind if each not in adopted}
        if again and self._when_behind is WhenBehind.REFUSE:
            raise SinkUnusable(self._refusal(marks, again, needed))
        # Each partition gets its mark before its results, because a write only moves marks.
        positions = {each: marks.positions.get(each, 0) for each in needed} | adopted
        begun = {each: at for each, at in positions.items() if marks.positions.get(each) != at}
        if begun:
            self._sink.mark(self._reader, begun)
        self._known.update(positions)
        return again

    def progress(self, next_offsets: Mapping[int, int]) -> Progress:
        """Return how a batch moves the marks of the partitions that were compared."""
        known = self._known
        return Progress(
            self._reader,
            {
                each: MarkStep(known[each], next_)
                for each, next_ in next_offsets.items()
                if each in known
            },
        )

    def note_moved(self, progress: Progress) -> None:
        """Note that the store has written a batch."""
        for each, step in progress.steps.items():
            self._known[each] = max(step.known, step.next)

    def raise_to(self, partition: int, low: int) -> None:
        """Raise a mark to the first offset that the topic still has.

        Nothing below it can be read again, so the store would be refused for good. Raises the
        errors of the sink.
        """
        self._sink.mark(self._reader, {partition: low})
        self._known[partition] = low

    def forget(self, partitions: Iterable[int]) -> None:
        """Forget partitions that another member of the group may read now."""
        for each in partitions:
            self._known.pop(each, None)

    def _adopt(self, marks: Marks, behind: Mapping[int, int]) -> dict[int, int]:
        """Return the marks to begin at the group's offsets, without reading again."""
        if self._when_behind is WhenBehind.REFILL:
            return {}
        if self._when_behind is WhenBehind.ADOPT:
            adopted = dict(behind)
        else:
            new = behind.keys() - marks.positions.keys() if marks.is_older else set()
            adopted = {each: behind[each] for each in new}
        if adopted:
            log.warning(
                "%s: taken to have all that group %s has read from topic %s; next offsets: %s",
                *(
                    marks.store,
                    self._reader.group,
                    self._reader.topic,
                    dict(sorted(adopted.items())),
                ),
            )
        return adopted

    def _refusal(self, marks: Marks, again: Mapping[int, int], needed: Mapping[int, int]) -> str:
        named = [
            f"partition {each} reaches offset {again[each]} and not {needed[each]}"
            for each in sorted(again)[:MOST_NAMED]
        ]
        if len(again) > MOST_NAMED:
            named.append(f"{len(again) - MOST_NAMED} more")
        return (
            f"{marks.store} lacks results that group {self._reader.group} has read from topic"
            f" {self._reader.topic} ({', '.join(named)}); it was emptied, replaced or restored from"
            " a backup. Start the sink with --refill to read them again, or once with --adopt to go"
            " on without them, for example after you moved the group's offsets forward"
        )
