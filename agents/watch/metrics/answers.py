"""How detectors with `answer: auto` answer, as metric families.

    inorder_answer_way{answer}      1 for the answer that is on
    inorder_answer_changes_total    how often it changed

Labels are stage, partition and query; a detector has them once an event has come. Queries beyond
those with a label of their own, and topics that a stage reads side by side, are taken together:
then a value is the number of those that answer so. A partition's gauges go with it; its counters
stay, and what a state brings along was counted by its former owner.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from aiokafka.structs import TopicPartition
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from topology.answer.choice import Chosen

_OF: Final = ("stage", "partition", "query")


class AnswerMetrics(Collector):
    """`name_of`: what a query is called among the labels."""

    def __init__(self, registry: CollectorRegistry, name_of: Callable[[str], str]) -> None:
        self._name_of = name_of
        self._changes = Counter(
            "inorder_answer_changes", "Changes of a detector's answer", _OF, registry=registry
        )
        self._known: dict[tuple[str, TopicPartition], dict[str, Chosen]] = {}
        registry.register(self)

    def set(self, stage: str, source: TopicPartition, chosen: Sequence[Chosen]) -> None:
        """Set the answers of all queries that choose in the partition. O(queries)."""
        before = self._known.get((stage, source), {})
        for each in chosen:
            labels = (stage, str(source.partition), self._name_of(each.query))
            was = before[each.query].changes if each.query in before else 0
            grown = each.changes - was if each.changes >= was else each.changes  # counted anew
            self._changes.labels(*labels).inc(grown)
        if chosen or before:
            self._known[stage, source] = {each.query: each for each in chosen}

    def forget(self, stage: str, source: TopicPartition) -> None:
        """Remove the series of a partition that was released."""
        self._known.pop((stage, source), None)

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """What `collect` will yield, without the values."""
        return [_ways()]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The answers that are on now."""
        found = Tally(
            (stage, str(source.partition), self._name_of(each.query), each.answer)
            for (stage, source), chosen in list(self._known.items())
            for each in chosen.values()
        )
        ways = _ways()
        for labels, count in found.items():
            ways.add_metric(labels, count)
        yield ways


def _ways() -> GaugeMetricFamily:
    text = "Detectors with this answer"
    return GaugeMetricFamily("inorder_answer_way", text, labels=(*_OF, "answer"))
