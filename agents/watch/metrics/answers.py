"""How detectors with `answer: auto` answer, as metric families.

    inorder_answer_way{answer}      1 for the answer that is on, 0 for one that was before
    inorder_answer_changes_total    how often it changed

Labels are stage, partition and query; a detector has them once an event has come. Queries beyond
those with a label of their own, and topics that a stage reads side by side, are taken together:
then a value is the number of those that answer so. A partition's gauges go with it; its counters
stay, and what a state brings along was counted by its former owner.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from aiokafka.structs import TopicPartition
from prometheus_client import CollectorRegistry, Counter, Gauge

from topology.answer.choice import Chosen

_OF: Final = ("stage", "partition", "query")

Place = tuple[str, int]


class AnswerMetrics:
    """`name_of`: what a query is called among the labels."""

    def __init__(self, registry: CollectorRegistry, name_of: Callable[[str], str]) -> None:
        self._name_of = name_of
        self._way = _Set(
            Gauge(
                "inorder_answer_way",
                "Detectors with this answer",
                (*_OF, "answer"),
                registry=registry,
            )
        )
        self._changes = Counter(
            "inorder_answer_changes", "Changes of a detector's answer", _OF, registry=registry
        )
        self._known: dict[Place, dict[str, dict[str, Chosen]]] = {}
        """By place, topic and query."""

    def set(self, stage: str, source: TopicPartition, chosen: Sequence[Chosen]) -> None:
        """Set the answers of all queries that choose in the partition. O(queries)."""
        place = (stage, source.partition)
        known = self._known.setdefault(place, {})
        before = known.get(source.topic, {})
        if not chosen and not before:
            return
        known[source.topic] = {each.query: each for each in chosen}
        for each in chosen:
            labels = (stage, str(source.partition), self._name_of(each.query))
            was = before.get(each.query)
            self._changes.labels(*labels).inc(
                _grown(each.changes, 0 if was is None else was.changes)
            )
        self._show(place)

    def forget(self, stage: str, source: TopicPartition) -> None:
        """Remove the series of a partition that was released."""
        place = (stage, source.partition)
        if self._known.get(place, {}).pop(source.topic, None):
            self._show(place)

    def _show(self, place: Place) -> None:
        ways: Tally[tuple[str, ...]] = Tally()
        for topic in self._known[place].values():
            for each in topic.values():
                ways[self._name_of(each.query), each.answer] += 1
        queries = {query for query, _ in ways}
        left = {of for of in self._way.shown(place) if of not in ways and of[0] in queries}
        self._way.show(place, {**dict.fromkeys(left, 0), **ways})


class _Set:
    """The children of a gauge; those that are not set any more are removed."""

    def __init__(self, gauge: Gauge) -> None:
        self._gauge = gauge
        self._shown: dict[Place, set[tuple[str, ...]]] = {}

    def shown(self, place: Place) -> set[tuple[str, ...]]:
        return self._shown.get(place, set())

    def show(self, place: Place, values: Mapping[tuple[str, ...], int]) -> None:
        stage, partition = place[0], str(place[1])
        for of in self.shown(place) - values.keys():
            self._gauge.remove(stage, partition, *of)
        for of, value in values.items():
            self._gauge.labels(stage, partition, *of).set(value)
        self._shown[place] = set(values)


def _grown(now: int, before: int) -> int:
    """What is counted anew begins with 0."""
    return now - before if now >= before else now
