"""How queries with `answer: auto` answer, as metric families.

    inorder_answer_way{answer}         1 for the way that is on, 0 for one that was before
    inorder_answer_changes_total       how often it changed
    inorder_answer_held, _held_bytes   results that wait to be told, of windows, patterns and joins
    inorder_answer_told_at_once_total  results that were to wait, and for which there was no room

Labels are stage, partition and query; told of are queries that have anything to choose by. Queries
beyond those that stand for themselves, and topics that a stage reads side by side, are taken
together: then a way is the number of those that answer so. A partition's gauges go with it; its
counters stay, and what a state brings along was counted by its former owner.

Proved by: tests/agents/watch/test_answer_metrics.py
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from aiokafka.structs import TopicPartition
from prometheus_client import CollectorRegistry, Counter, Gauge

from topology.speculate.choice import Chosen

_OF: Final = ("stage", "partition", "query")

Place = tuple[str, int]


class AnswerMetrics:
    """`name_of`: what a query is called among the labels."""

    def __init__(self, registry: CollectorRegistry, name_of: Callable[[str], str]) -> None:
        self._name_of = name_of
        self._way = _Set(
            Gauge(
                "inorder_answer_way", "Queries that answer so", (*_OF, "answer"), registry=registry
            )
        )
        self._held = _Set(
            Gauge("inorder_answer_held", "Results that wait to be told", _OF, registry=registry)
        )
        self._held_bytes = _Set(
            Gauge(
                "inorder_answer_held_bytes",
                "Size of results that wait to be told",
                _OF,
                registry=registry,
            )
        )
        self._changes = Counter(
            "inorder_answer_changes", "Times another way was taken", _OF, registry=registry
        )
        self._told_at_once = Counter(
            "inorder_answer_told_at_once",
            "Results that were to wait, and for which there was no room",
            _OF,
            registry=registry,
        )
        self._known: dict[Place, dict[str, dict[str, Chosen]]] = {}
        """By place, topic and query."""

    def stand(self, stage: str, source: TopicPartition, chosen: Sequence[Chosen]) -> None:
        """All that choose in that partition. O(queries)."""
        place = (stage, source.partition)
        known = self._known.setdefault(place, {})
        before = known.get(source.topic, {})
        if not chosen and not before:
            return
        known[source.topic] = {each.query: each for each in chosen}
        for each in chosen:
            labels = (stage, str(source.partition), self._name_of(each.query))
            was = before.get(each.query)
            changes, told = (0, 0) if was is None else (was.changes, was.told_at_once)
            self._changes.labels(*labels).inc(_grown(each.changes, changes))
            self._told_at_once.labels(*labels).inc(_grown(each.told_at_once, told))
        self._show(place)

    def forget(self, stage: str, source: TopicPartition) -> None:
        """The partition has been given up."""
        place = (stage, source.partition)
        if self._known.get(place, {}).pop(source.topic, None):
            self._show(place)

    def _show(self, place: Place) -> None:
        ways: Tally[tuple[str, ...]] = Tally()
        held: Tally[tuple[str, ...]] = Tally()
        held_bytes: Tally[tuple[str, ...]] = Tally()
        for topic in self._known[place].values():
            for each in topic.values():
                of = (self._name_of(each.query),)
                ways[*of, each.answer] += 1
                held[of] += each.held
                held_bytes[of] += each.held_bytes
        left = {of for of in self._way.shown(place) if of not in ways and of[:1] in held}
        self._way.show(place, {**dict.fromkeys(left, 0), **ways})
        self._held.show(place, held)
        self._held_bytes.show(place, held_bytes)


class _Set:
    """The children of a gauge, of which those go that are not shown any more."""

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
