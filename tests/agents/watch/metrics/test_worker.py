"""Examples: counters of a step, bounded labels, and the operators' figures across restores."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.structs import TopicPartition
from prometheus_client import CollectorRegistry

from agents.watch import unhealthy
from agents.watch.deaths import MAX_REASONS, OTHER
from agents.watch.metrics.partition import PartitionMetrics, ShellTotals, StreamFigures
from agents.watch.metrics.worker import MAX_STREAMS, Metrics, PlaceMetrics
from agents.watch.sentences import open_ends
from topology.base.event import HEARTBEAT, WATERMARK, Event
from topology.base.field_use import FieldUse, Unusable
from topology.base.outcome import Duplicate, Gap, Late, Malformed, Report, Step
from topology.base.result import Member, Overflow, WindowResult
from topology.base.user_functions import UserFunctions
from topology.config import parse, parse_with
from topology.config.stages import list_operators
from topology.queries.detector.detector import Detector
from topology.stage.lanes import lanes_of
from topology.stage.registry import figures as figures_of_all
from topology.stage.stage import Stage
from topology.stage.unmet import make_unmet_check

PLACE = {"stage": "reorder", "stream": "pitch", "partition": "3"}
MS = 1_000_000
S = 1_000 * MS


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> Metrics:
    return Metrics(registry, "reorder")


def event(seq: int, *, waited_ns: int = 0, late: str = "", kind: str = "") -> Event:
    made = Event("pitch", "s1", 0, seq, 0, 1000, kind=kind)
    made.at_ns = 1000 + waited_ns
    made.late = late
    return made


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(name, PLACE | labels)


def test_counters_of_a_step_balance(registry: CollectorRegistry, metrics: Metrics) -> None:
    place = PlaceMetrics(metrics, "pitch", 3)
    place.read(8)
    metrics.held.labels("reorder", "pitch", "3").set(1)
    released = [event(1), event(2), event(3, late="gap"), event(4, kind=HEARTBEAT)]
    reports: list[Report] = [
        Late(0, event(5), "beyond_memory"),
        Duplicate(0, event(6)),
        Duplicate(0, event(6), conflict=True),
        Duplicate(0, event(7, kind=HEARTBEAT)),
        Malformed(0, 17, "seq_missing", "…"),
        Gap(0, "pitch", "s1", 0, 10, 14, "timeout", 0),
    ]
    place.observe(Step(0, released, reports))
    place.observe(Step(0, [event(9, kind=WATERMARK)]))

    assert value(registry, "inorder_records_emitted_total") == 2
    assert value(registry, "inorder_records_late_total", reason="gap") == 1
    assert value(registry, "inorder_records_late_total", reason="beyond_memory") == 1
    assert value(registry, "inorder_records_duplicate_total") == 2
    assert value(registry, "inorder_records_conflict_total") == 1
    assert value(registry, "inorder_records_dead_total", reason="seq_missing") == 1
    assert value(registry, "inorder_records_control_total", kind=HEARTBEAT) == 2
    assert value(registry, "inorder_records_control_total", kind=WATERMARK) == 1
    assert value(registry, "inorder_reorder_gaps_total", reason="timeout") == 1
    assert value(registry, "inorder_reorder_missing_total") == 5
    assert value(registry, "inorder_reorder_gap_age_seconds_count") == 1
    emitted, late, duplicate, dead, held = 2, 2, 2, 1, 1
    assert value(registry, "inorder_records_in_total") == emitted + late + duplicate + dead + held


def test_waits_fall_into_buckets(registry: CollectorRegistry, metrics: Metrics) -> None:
    waits_ns = [0, -5, 1, MS, MS + 1, 500 * MS, 60_000 * MS, 60_000 * MS + 1]
    PlaceMetrics(metrics, "pitch", 0).observe(
        Step(0, [event(n, waited_ns=wait) for n, wait in enumerate(waits_ns)])
    )
    PlaceMetrics(metrics, "pitch", 1).observe(Step(0, [event(0, waited_ns=2)]))

    def below(edge: str) -> float | None:
        labels = {"stage": "reorder", "stream": "pitch", "le": edge}
        return registry.get_sample_value("inorder_wait_seconds_bucket", labels)

    assert [below(edge) for edge in ("0.0", "0.001", "0.002", "0.2", "0.5")] == [2, 5, 6, 6, 7]
    assert (below("60.0"), below("+Inf")) == (8, 9)
    labels = {"stage": "reorder", "stream": "pitch"}
    assert registry.get_sample_value("inorder_wait_seconds_count", labels) == 9
    total_s = registry.get_sample_value("inorder_wait_seconds_sum", labels)
    assert total_s == pytest.approx(120.502, abs=1e-6)


def test_labels_are_bounded(registry: CollectorRegistry, metrics: Metrics) -> None:
    place = PlaceMetrics(metrics, "pitch", 3)
    for number in range(MAX_REASONS + 5):
        place.observe(Step(0, [], [Malformed(0, 0, f"reason-{number}", "…")]))
    assert value(registry, "inorder_records_dead_total", reason=OTHER) == 5
    assert value(registry, "inorder_records_dead_total", reason="reason-0") == 1
    partition = PartitionMetrics(metrics, TopicPartition("raw", 0), ["pitch"])
    for number in range(MAX_STREAMS + 5):
        partition.count_received([], [Malformed(0, 0, "", "…", stream=f"stream-{number}")])
    labels = {"stage": "reorder", "stream": OTHER, "partition": "0"}
    assert registry.get_sample_value("inorder_records_in_total", labels) == 5


def test_labels_are_from_a_fixed_set(registry: CollectorRegistry) -> None:
    Metrics(registry, "merge")
    allowed = {"stage", "stream", "partition", "reason", "kind", "query", "op", "final", "outcome"}
    names = [(family.name, family) for family in registry.collect()]
    assert len(names) > 20
    metrics = Metrics(CollectorRegistry(), "merge")
    assert set(unhealthy.LABELS) - allowed == {"source"}
    for name, collector in {**vars(metrics), **metrics.figures}.items():
        labels = set(getattr(collector, "_labelnames", getattr(collector, "_labels", ())))
        assert labels <= allowed | ({"topic", "waits_for"} if name == "overdue" else set()), name
    assert all(name.startswith("inorder_") for name, _ in names)


def test_overdue_has_one_series(registry: CollectorRegistry) -> None:
    partition = PartitionMetrics(Metrics(registry, "merge"), TopicPartition("seq", 1), ["pitch"])

    def shown() -> dict[str, float]:
        (family,) = [each for each in registry.collect() if each.name == "inorder_overdue_seconds"]
        return {each.labels["waits_for"]: each.value for each in family.samples}

    assert shown() == {}
    for words, seconds in (("sources a", 1.0), ("sources a", 2.0), ("progress of b/2", 1.0)):
        partition.overdue(seconds, words)
        assert shown() == {words: seconds}
    partition.overdue(0.0, "")
    assert shown() == {}
    partition.overdue(3.0, "sources a")
    partition.forget()
    assert shown() == {}


def test_gauges_end_with_partition(registry: CollectorRegistry, metrics: Metrics) -> None:
    parts = {n: PartitionMetrics(metrics, TopicPartition("raw", n), ["pitch"]) for n in (3, 4, 5)}
    for number in (3, 4):
        parts[number].count_received([event(0)] * 5, [])
        parts[number].set_current({"pitch": StreamFigures(7, {})}, ShellTotals(0, 0))
        metrics.note_lag(parts[number].source, 9, None)
    parts[3].forget()
    parts[5].forget()  # This partition has no gauges.
    lag = {"stage": "reorder", "partition": "3"}
    assert value(registry, "inorder_records_held") is None
    assert value(registry, "inorder_records_held", partition="4") == 7
    assert registry.get_sample_value("inorder_input_lag_records", lag) is None
    assert value(registry, "inorder_records_in_total") == 5
    parts[3].count_received([event(0)], [])
    assert value(registry, "inorder_records_in_total") == 6


def test_lags_of_two_topics_add_up(registry: CollectorRegistry, metrics: Metrics) -> None:
    """Removing one topic leaves the other's figures."""
    sources = {stream: TopicPartition(f"raw-{stream}", 0) for stream in ("a", "b")}
    parts: dict[str, PartitionMetrics] = {}
    for stream, source in sources.items():
        part = parts[stream] = PartitionMetrics(metrics, source, [stream])
        lag_ns = 3_000_000_000 if stream == "a" else None
        part.set_current({stream: StreamFigures(7, {})}, ShellTotals(0, 0))
        metrics.note_lag(source, 4, lag_ns)
    lag = {"stage": "reorder", "partition": "0"}
    assert registry.get_sample_value("inorder_input_lag_records", lag) == 8
    assert registry.get_sample_value("inorder_input_lag_seconds", lag) == 3
    parts["a"].forget()
    assert registry.get_sample_value("inorder_input_lag_records", lag) == 4
    assert registry.get_sample_value("inorder_input_lag_seconds", lag) is None
    assert value(registry, "inorder_records_held", stream="a", partition="0") is None
    assert value(registry, "inorder_records_held", stream="b", partition="0") == 7


def test_open_results_are_logged_once(metrics: Metrics, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    window = "window: tumbling 1s, aggregate: {n: count()}"
    metrics.open_ends = open_ends(
        parse(
            "streams: {pitch: {}}\nqueries:\n"
            f"  w: {{{window}, correct_for: 60s}}\n  f: {{{window}, finals: true}}\n"
            f"  a: {{{window}, answer: final}}\n"
        )
    )
    assert metrics.open_ends.keys() == {"w"}

    def found(query: str, *, final: bool) -> None:
        place: Any = (0, "pitch", query, "id", "emit", 0, final, "uncertain", 0, 1, {})
        metrics.count_findings([WindowResult(*place)])

    found("f", final=False)
    found("w", final=True)
    assert caplog.messages == []
    found("w", final=False)
    found("w", final=False)
    (said,) = caplog.messages
    assert "write `finals: true` in the query" in said
    assert "`correct_for` (60 s)" in said


def test_queries_without_results_are_named(metrics: Metrics) -> None:
    topology = parse(
        "streams: {pitch: {}}\n"
        "queries:\n"
        '  q: {pattern: "PATTERN SEQ(Dor d, Reading r) WITHIN 5 s"}\n'
        "  w: {window: tumbling 1s, aggregate: {m: avg(payload.v)}}\n"
    )
    assert metrics.find_without_results() == {}
    metrics.unmet = make_unmet_check(topology, ["pattern"], each_batch=5)
    assert metrics.find_without_results() == {}, "nothing has come"
    place = PartitionMetrics(metrics, TopicPartition("ordered", 0), ["pitch"])
    place.count_received([event(1)], [])
    seen = "types seen: (none)"
    said = [f"no event of type `{kind}`; {seen}" for kind in ("Dor", "Reading")]
    assert metrics.find_without_results() == {"q": said}
    metrics.count_findings([Overflow(0, "pitch", "q", Member("d", "s1", 0, 1, 0), 5)])
    assert metrics.find_without_results() == {}


# -- figures of operators ----------------------------------------------------------------------

TOPOLOGY = """\
streams: {default: {clock: {unsynced: trust}, reorder: {without_seq: by_time}}}
topics: {partitions: 1}
queries:
  tumbling: {window: tumbling 1s, aggregate: {n: count()}, quality: {accuracy: 99%}}
  session: {window: session 1s, aggregate: {n: count()}}
  count: {window: count 9, aggregate: {n: count()}}
  pattern: {pattern: "PATTERN SEQ(A a, B b) WITHIN 1 s", quality: {}}
  join: {join: interval 1s, sides: {a: {type: A}, b: {type: B}}, outer: full, quality: {}}
  detector: {detector: any}
"""


OWN = UserFunctions(detectors={"any": Detector(lambda state, event: (state, None))})


@pytest.mark.parametrize("name", list_operators())
def test_stage_has_operator_families(name: str) -> None:
    stage = Stage(parse_with(TOPOLOGY, OWN), [name], lanes=lanes_of("raw", 1))
    assert figures_of_all([name]).keys() >= stage.figures_of("default").keys()
    registry = CollectorRegistry()
    Metrics(registry, name, [name])
    families = {family.name for family in registry.collect()}
    for figure in figures_of_all():
        family = f"inorder_{figure}".replace("_ns", "_seconds")
        assert (family in families) == (figure in figures_of_all([name]))


def in_3(metrics: Metrics, *streams: str) -> PartitionMetrics:
    return PartitionMetrics(metrics, TopicPartition("raw", 3), streams)


def set_current(partition: PartitionMetrics, *, held: int = 0, **figures: int) -> None:
    partition.set_current({"pitch": StreamFigures(held, figures, 2 * S)}, ShellTotals(0, 0))


def test_every_figure_has_a_family(registry: CollectorRegistry, metrics: Metrics) -> None:
    stage = Stage(parse_with(TOPOLOGY, OWN), list_operators())
    event = Event("default", "s", 0, 0, 5 * S, 7 * S)
    stage.on_batch([event], 7 * S)
    stage.on_time(8 * S)
    figures = stage.figures_of("default")
    assert figures_of_all().keys() == figures.keys(), "name it in FIGURES of its operator"
    partition = in_3(metrics, "default")
    partition.begins({}, ShellTotals(0, 0))
    partition.set_current({"default": StreamFigures(0, figures)}, ShellTotals(0, 0))
    names = ("sources", "watermark_seconds", "watermark_lag_seconds", "overflows_total")
    told = [value(registry, f"inorder_merge_{name}", stream="default") for name in names]
    assert told == [1, 5, 3, 0]


def test_unusable_values_are_logged(
    registry: CollectorRegistry, metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    """Each kind of unusable value and a long run of missing ones are logged once."""
    partition = in_3(metrics, "pitch")
    before = FieldUse("cold", "mean", "payload.temp", 9, 0, (Unusable("text", 4, '"-18,0"'),))
    partition.begins({"pitch": StreamFigures(0, {}, 0, [before])}, ShellTotals(0, 0))
    labels = {"stage": "reorder", "query": "cold"}
    families = ("inorder_window_unusable_total", "inorder_window_absent_total")
    assert [registry.get_sample_value(name, labels) for name in families] == [0, 0]
    for n in (5, 6, 6):
        unusable = Unusable("text", n, '"-18,0"'), Unusable("lists", 1, "one of length 2")
        use = before._replace(absent=9 + n, absent_in_row=1_000 + n, unusable=unusable)
        partition.set_current({"pitch": StreamFigures(0, {}, 0, [use])}, ShellTotals(0, 0))
    assert [registry.get_sample_value(name, labels) for name in families] == [3, 6]
    page = " (docs/operate/schemas.md)"
    assert [record.getMessage().removesuffix(page) for record in caplog.records] == [
        'cold.mean: 4 values of payload.temp are text, such as "-18,0"',
        "cold.mean: 1 value of payload.temp is a list, such as one of length 2",
        "cold.mean: the last 1,005 events have no payload.temp",
    ]


def test_restored_totals_count_once(registry: CollectorRegistry, metrics: Metrics) -> None:
    partition = in_3(metrics, "pitch")
    before = {"reorder_forgotten": 7, "reorder_sources": 2, "reorder_waited_ns": S}
    partition.begins({"pitch": StreamFigures(0, before)}, ShellTotals(0, 0))
    assert value(registry, "inorder_reorder_forgotten_total") == 0
    for forgotten in (7, 9, 9, 10):
        figures = {"reorder_sources": 5, "reorder_waited_ns": 4 * S}
        set_current(partition, held=2, reorder_forgotten=forgotten, **figures)
    assert value(registry, "inorder_reorder_forgotten_total") == 3
    assert value(registry, "inorder_reorder_sources") == 5
    assert value(registry, "inorder_reorder_waited_seconds_total") == 3
    assert value(registry, "inorder_records_held_oldest_seconds") == 2


def test_restarted_total_adds_up(registry: CollectorRegistry, metrics: Metrics) -> None:
    set_current(in_3(metrics, "pitch"), merge_forgotten=4)
    second = in_3(metrics, "pitch")
    second.begins({"pitch": StreamFigures(0, {"merge_forgotten": 0})}, ShellTotals(0, 0))
    set_current(second, merge_forgotten=2)
    assert value(registry, "inorder_merge_forgotten_total") == 6


def test_extra_streams_are_summed(registry: CollectorRegistry, metrics: Metrics) -> None:
    streams = [f"s{number}" for number in range(MAX_STREAMS + 3)]
    partition = in_3(metrics, *streams)
    figures = {"merge_queued": 2, "merge_overflows": 1, "merge_watermark_ns": 5 * S}
    current = dict.fromkeys(streams, StreamFigures(2, figures))
    for _ in range(2):
        partition.set_current(current, ShellTotals(0, 0))

    def told(stream: str) -> list[float | None]:
        names = ("merge_queued", "merge_watermark_seconds", "records_held")
        return [value(registry, f"inorder_{name}", stream=stream) for name in names]

    assert told("s0") == [2, 5, 2]
    assert told(OTHER) == [6, None, 6]
    partition.forget()
    assert told("s0") == told(OTHER) == [None, None, None]
    assert value(registry, "inorder_merge_overflows_total", stream=OTHER) == 3


def test_lags_end_with_the_task() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry, "all")
    places = [TopicPartition("raw", number) for number in range(3)]
    task = PartitionMetrics(metrics, places[0], ["pitch"], lanes=enumerate(places))
    for place in places:
        metrics.note_lag(place, 5, None)
    assert [lag_of(registry, place) for place in places] == [5, 5, 5]
    task.forget()
    assert [lag_of(registry, place) for place in places] == [None, None, None]


def lag_of(registry: CollectorRegistry, place: TopicPartition) -> float | None:
    labels = {"stage": "all", "partition": f"{place.partition}"}
    return registry.get_sample_value("inorder_input_lag_records", labels)
