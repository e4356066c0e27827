"""Examples: the way of each query that chooses, as families, over changes, restores and the end."""

from __future__ import annotations

from aiokafka.structs import TopicPartition
from prometheus_client import CollectorRegistry

from agents.watch.metrics.partition import PartitionMetrics, ShellTotals
from agents.watch.metrics.worker import MAX_QUERIES, OTHER, Metrics
from topology.answer.choice import Chosen


class Told:
    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.metrics = Metrics(self._registry)

    def partition(self, topic: str = "ordered") -> PartitionMetrics:
        return PartitionMetrics(self.metrics, "window", TopicPartition(topic, 3), ["pitch"])

    def __call__(self, family: str, query: str = "q", answer: str = "") -> float | None:
        labels = {"stage": "window", "partition": "3", "query": query}
        if answer:
            labels["answer"] = answer
        return self._registry.get_sample_value(f"inorder_answer_{family}", labels)


def test_one_way_is_on() -> None:
    told = Told()
    partition = told.partition()
    partition.answers([Chosen("q", "early")])
    assert (told("way", answer="early"), told("way", answer="final")) == (1, None)
    partition.answers([Chosen("q", "final", 1)])
    assert (told("way", answer="early"), told("way", answer="final")) == (None, 1)
    assert told("changes_total") == 1
    partition.answers([Chosen("q", "early", 2)])
    assert (told("way", answer="early"), told("way", answer="final")) == (1, None)
    assert told("changes_total") == 2


def test_what_is_counted_anew_takes_nothing_back() -> None:
    told = Told()
    partition = told.partition()
    for changes in (4, 1, 3):
        partition.answers([Chosen("q", "early", changes)])
    assert told("changes_total") == 4 + 1 + 2


def test_a_query_that_is_no_more_has_no_way() -> None:
    told = Told()
    partition = told.partition()
    partition.answers([Chosen("q", "early"), Chosen("other one", "final")])
    partition.answers([Chosen("q", "final")])
    assert told("way", "other one", "final") is None
    assert told("way", answer="final") == 1
    partition.set_current({}, 0, ShellTotals(0, 0))
    partition.forget()
    assert told("way", answer="final") is told("way", answer="early") is None
    assert told("changes_total") == 0
    again = told.partition()
    again.answers([Chosen("q", "early", 1)])
    assert told("changes_total") == 1


def test_topics_side_by_side_are_told_together() -> None:
    told = Told()
    one, other = told.partition("one"), told.partition("other")
    one.answers([Chosen("q", "early"), Chosen("r", "early")])
    other.answers([Chosen("q", "final", 1)])
    assert (told("way", answer="early"), told("way", answer="final")) == (1, 1)
    for each in (one, other):
        each.set_current({}, 0, ShellTotals(0, 0))
    one.forget()
    assert (told("way", answer="early"), told("way", answer="final")) == (None, 1)
    assert told("way", "r", "early") is None


def test_beyond_a_bound_queries_are_told_together() -> None:
    told = Told()
    chosen = [Chosen(f"q{n}", "early", 1) for n in range(MAX_QUERIES + 3)]
    chosen[-1] = chosen[-1]._replace(answer="final")
    told.partition().answers(chosen)
    assert told("way", OTHER, "early") == 2
    assert told("way", OTHER, "final") == 1
    assert told("changes_total", OTHER) == 3
