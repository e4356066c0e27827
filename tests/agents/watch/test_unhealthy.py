"""Examples: unhealthy sources in `/explain`, the metrics and the log.

Examples and laws of the table behind it: it contains the heaviest entries, stays small, and states
the bound of its error.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from itertools import product
from random import Random

import pytest
from aiokafka.structs import TopicPartition
from prometheus_client import CollectorRegistry, generate_latest

from agents.watch import unhealthy
from agents.watch.frequent import Frequent, Weighed
from agents.watch.metrics.partition import PartitionMetrics
from agents.watch.metrics.worker import Metrics
from agents.watch.page.sources import MAX_LATE, choose_sources
from agents.watch.unhealthy import UnhealthySources
from topology.base.event import Event
from topology.base.late import GAP, OLD_EPOCH
from topology.base.outcome import Duplicate, Gap, Late, Report, Step
from topology.config import parse
from topology.config.stages import list_operators
from topology.order.clock import operator as clock
from topology.stage.stage import Stage

# -- the explanation -------------------------------------------------------------------------------


def late_of(names: Iterable[str], stream: str = "pitch") -> UnhealthySources:
    """Return a table where each source is late once for each time it is named."""
    sources = UnhealthySources("here")
    sources.note_late((stream, name) for name in names)
    return sources


def event(source: str, seq: int = 0, late: str = "") -> Event:
    made = Event("pitch", source, 0, seq, 0, 0)
    made.late = late
    return made


def gap(source: str, first: int, last: int) -> Gap:
    return Gap(9, "pitch", source, 0, first, last, "timeout", 1)


def test_counts_are_kept_by_source() -> None:
    partition = PartitionMetrics(
        Metrics(CollectorRegistry(), "reorder"), TopicPartition("raw", 0), ["pitch"]
    )
    reports: list[Report] = [
        gap("a", 3, 5),
        gap("a", 7, 7),
        Late(9, event("b"), "gap", 0),
        Duplicate(9, event("c")),
    ]
    partition.count_emitted(
        Step(9, [event("a", 4, late="gap"), event("a", 8), event("c", 1)], reports)
    )
    exact = {"stream": "pitch", "late_error": 0, "lost_error": 0}
    assert partition.unhealthy.explain(unhealthy.EXPLAINED) == [
        {**exact, "source": "a", "late": 1, "gaps": 2, "lost": 4},
        {**exact, "source": "b", "late": 1, "gaps": 0, "lost": 0},
    ]


def test_largest_loss_is_listed() -> None:
    sources = late_of([])
    sources.note_reports([gap("much", 1, 20_000)])
    sources.note_reports(
        [gap(f"s{n}", 2 * k, 2 * k) for k in range(3) for n in range(2 * unhealthy.COUNTED)]
    )
    told = {each["source"]: each for each in sources.explain(unhealthy.EXPLAINED)}
    assert len(told) == unhealthy.EXPLAINED
    assert (told["much"]["gaps"], told["much"]["lost"]) == (1, 20_000)
    assert told["much"]["lost_error"] == 0


def test_shared_list_has_the_worst() -> None:
    """There are 32 partitions with a thousand late sources each, all with distinct amounts."""
    partitions = 32
    parts = [late_of([]) for _ in range(partitions)]
    for partition, number in product(range(partitions), range(1_000)):
        amount = 1 + (number * 7_919 + partition * 104_729) % 32_003
        parts[partition].late.note(("pitch", f"{partition}-{number}"), amount)
    all_of_them = [each for part in parts for each in part.explain(1_000)]
    shared = [each for part in parts for each in part.explain(unhealthy.max_listed(partitions))]
    assert len(shared) == partitions * unhealthy.NAMED
    named = choose_sources([], [], shared)["unhealthy"]
    assert len(named) == MAX_LATE
    assert named == choose_sources([], [], all_of_them)["unhealthy"]
    assert unhealthy.max_listed(0) == unhealthy.max_listed(1) == unhealthy.EXPLAINED


def test_requested_source_is_listed() -> None:
    sources = late_of(f"s{number}" for number in range(10) for _ in range(10 - number))
    asked = [("pitch", "s9"), ("pitch", "s0"), ("pitch", "in order")]
    told = [each["source"] for each in sources.explain(2, asked)]
    assert told == ["s0", "s1", "s9"]


# -- clocks of waiting or late sources -------------------------------------------------------------


CLOCKS = "streams: {default: {clock: {unsynced: trust}}}\nstages: [reorder+merge]\n"


def stage_with(sources: int, waiting: int) -> Stage:
    """Return a stage where the last `waiting` sources have a gap."""
    stage = Stage(parse(CLOCKS), ("reorder", "clock", "merge"))
    names = [f"s{number:03}" for number in range(sources)]
    events = [
        Event("default", name, 0, seq, 1_000 + seq, 1_000_000 + seq)
        for seq, late in ((0, names), (2, names[sources - waiting :]))
        for name in late
    ]
    stage.on_batch(events, events[-1].at_ns)
    return stage


def clocks_of(stage: Stage, *late: str) -> list[str]:
    told = unhealthy.explain(stage, late_of(late, "default"), unhealthy.EXPLAINED)
    return [each["source"] for each in told["streams"]["default"]["clock"]["clocks"]]


def test_waiting_source_has_its_clock() -> None:
    found = clocks_of(stage_with(clock.MAX_LISTED + 50, 20), "s120", "s149", "gone")
    assert len(set(found)) == len(found)
    assert {"s120", *(f"s{number:03}" for number in range(130, 150))} <= {*found}
    assert "gone" not in found


def test_number_of_clocks_is_bounded() -> None:
    found = clocks_of(stage_with(500, 400))  # all clocks equally certain, so the first are listed
    assert len(found) <= clock.MAX_LISTED + unhealthy.MAX_ASKED
    assert len(found) > clock.MAX_LISTED


def test_waiting_source_is_listed() -> None:
    late = late_of(["s149"] + ["worse"] * 7, "default")
    told = unhealthy.explain(stage_with(150, 20), late, 1)
    assert {each["source"]: each["late"] for each in told["unhealthy"]} == {"s149": 1, "worse": 7}


# -- metrics ---------------------------------------------------------------------------------------


READ = 1_000


PLACE = TopicPartition("raw", 0)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def table_in(metrics: Metrics, source: TopicPartition, read: unhealthy.Read) -> UnhealthySources:
    return PartitionMetrics(metrics, source, ["pitch"], read).unhealthy


def labelled(registry: CollectorRegistry, what: str = "late") -> dict[str, float]:
    return {
        sample.labels["source"]: sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == f"inorder_source_{what}_total"
    }


def test_late_and_read_events_are_counted(registry: CollectorRegistry) -> None:
    """Counting starts at the source's first late event."""
    read = {"a": 900, "b": 5}
    table = table_in(Metrics(registry, "merge"), PLACE, lambda stream, source: read[source])
    table.note_late([("pitch", "a")] * 3 + [("pitch", "b")])
    read["a"] += 99
    labels = {"stage": "merge", "stream": "pitch", "source": "a"}
    assert registry.get_sample_value("inorder_source_late_total", labels) == 3
    assert registry.get_sample_value("inorder_source_read_total", labels) == 100
    assert labelled(registry) == {"a": 3, "b": 1}
    read["a"] = 7  # forgotten, and seen again
    assert labelled(registry, "read") == {"a": 7, "b": 1}
    read["a"] = 1_000
    assert labelled(registry, "read") == {"a": 1_000, "b": 1}


def test_returning_source_is_recounted(
    registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A returning source's late events start at zero, so its read events must too."""
    monkeypatch.setattr(unhealthy, "COUNTED", 2)
    read: Counter[str] = Counter()
    table = table_in(Metrics(registry, "merge"), PLACE, lambda stream, source: read[source])

    def comes(*names: str, times: int) -> None:
        for number in range(times):
            for name in names:
                read[name] += 1
                if name != "bad" or number % 2:
                    table.note_late([("pitch", name)])

    comes("bad", times=100)
    comes("x", "y", times=200)
    assert not table.late.of(("pitch", "bad")).amount, "else nothing is shown"
    read["bad"] += 500
    comes("bad", times=1_000)
    assert labelled(registry)["bad"] == 500
    assert labelled(registry, "read")["bad"] == 999


def test_labels_are_bounded(registry: CollectorRegistry) -> None:
    metrics = Metrics(registry, "merge")
    for partition in range(4):
        table = table_in(metrics, PLACE._replace(partition=partition), lambda *_: READ)
        table.note_late([("pitch", f"{partition}-{n}") for n in range(unhealthy.LABELLED)])
    ninth = PLACE._replace(partition=9)
    table_in(metrics, ninth, lambda *_: READ).note_late([("pitch", "x" * 500)] * 2)
    found = labelled(registry)
    assert len(found) == unhealthy.LABELLED
    assert max(map(len, found)) == unhealthy.LONGEST_NAME
    metrics.forget(ninth)
    assert max(map(len, labelled(registry))) < 10


def test_spread_source_is_one_series(registry: CollectorRegistry) -> None:
    metrics = Metrics(registry, "merge")
    read = 1
    for partition in range(2):
        table = table_in(metrics, PLACE._replace(partition=partition), lambda *_: read)
        table.note_late([("pitch", "wanders")])
    read = READ
    assert labelled(registry) == {"wanders": 2}
    assert labelled(registry, "read") == {"wanders": 2 * READ}
    assert b'source="wanders"' in generate_latest(registry)


def test_topics_have_separate_tables(registry: CollectorRegistry) -> None:
    """A stage can read two topics; if it loses one, the other's table stays."""
    metrics = Metrics(registry, "merge")
    for topic, stream in (("raw-a", "a"), ("raw-b", "b")):
        table = table_in(metrics, TopicPartition(topic, 0), lambda *_: READ)
        table.note_late([(stream, f"of-{stream}")] * 2)
    assert labelled(registry) == {"of-a": 2, "of-b": 2}
    metrics.forget(TopicPartition("raw-a", 0))
    assert labelled(registry) == {"of-b": 2}
    table_in(metrics, PLACE, lambda *_: 0).note_late([("pitch", "gone")])
    assert labelled(registry) == {"of-b": 2}, "the stage has forgotten the other"


# -- two producers of one source -------------------------------------------------------------------


ONE_STREAM = "streams: {default: {clock: {unsynced: trust}}}\ntopics: {partitions: 1}\n"
MS = 1_000_000


def numbered(epoch: int, seq: int, at_ns: int = 0) -> Event:
    return Event("default", "s1", epoch, seq, at_ns, at_ns)


def late_by(reason: str) -> Report:
    return Late(0, numbered(3, 7), reason)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    ("report", "says"),
    [
        (late_by(OLD_EPOCH), "s1/3/7 of default came after a higher epoch began"),
        (
            Duplicate(0, numbered(3, 7), conflict=True),
            "s1/3/7 of default came again with other content",
        ),
        (late_by(GAP), ""),
        (Duplicate(0, numbered(3, 7)), ""),
    ],
)
def test_two_producers_are_noticed(
    report: Report, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    UnhealthySources("stage reorder, partition 3").note_reports([report])
    assert len(warnings(caplog)) == bool(says)
    assert all(says in line for line in warnings(caplog))


def test_warning_repeats_each_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now_s = [0.0]
    two = UnhealthySources("here", now_s=lambda: now_s[0])
    for _ in range(10):
        two.note_reports([late_by(OLD_EPOCH), late_by(OLD_EPOCH)])
    for _ in range(2):
        now_s[0] += unhealthy.WARN_EVERY_S
        two.note_reports([])
        told = [line.split(" repeat")[0] for line in warnings(caplog)]
        assert told == ["here: 2 event(s)", "here: 18 event(s)"]


def test_alternating_epochs_are_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Two hosts send in turn, each with its own epoch; the higher one counts."""
    registry = CollectorRegistry()
    metrics = PartitionMetrics(Metrics(registry, "reorder+merge"), PLACE, ["default"])
    stage = Stage(parse(ONE_STREAM), list_operators())
    with caplog.at_level(logging.WARNING):
        for seq in range(20):
            for epoch in (41, 40):
                at_ns = (seq + 1) * MS
                metrics.count_emitted(stage.on_batch([numbered(epoch, seq, at_ns)], at_ns))
    labels = {"stage": "reorder+merge", "stream": "default", "partition": "0"}
    labels["reason"] = "old_epoch"
    assert registry.get_sample_value("inorder_records_late_total", labels) == 20
    assert ["two producers" in line for line in warnings(caplog)] == [True]


# -- the table of the heaviest sources -------------------------------------------------------------

MOST = 20
NOTES = 4_000


def full_table(rng: Random) -> tuple[Frequent, Counter[str], Counter[str]]:
    """Return a full table, and the true amounts and times of all sources."""
    table = Frequent(MOST)
    amounts: Counter[str] = Counter()
    times: Counter[str] = Counter()
    most = rng.choice((1, 30))
    for _ in range(NOTES):
        name = f"often-{rng.randrange(5)}" if rng.random() < 0.5 else f"s{rng.randrange(3_000)}"
        amount = rng.randint(1, most)
        amounts[name] += amount
        times[name] += 1
        table.note(("stream", name), amount)
        assert len(table._table) <= MOST
    return table, amounts, times


@pytest.mark.parametrize("seed", range(10))
def test_law_heavy_source_is_listed(seed: int) -> None:
    table, amounts, _ = full_table(Random(seed))
    found = {name for _, name in table._table}
    above = {name for name, amount in amounts.items() if amount > amounts.total() / MOST}
    assert above
    assert above <= found


@pytest.mark.parametrize("seed", range(10))
def test_law_error_bounds_hold(seed: int) -> None:
    table, amounts, times = full_table(Random(seed))
    assert sum(named.count for named in table._table.values()) == amounts.total()
    for name in [*amounts, "never"]:
        named = table.of(("stream", name))
        assert named.amount <= amounts[name] <= named.count
        assert named.times <= times[name]
        assert named.error <= amounts.total() / MOST


def test_full_table_drops_the_least() -> None:
    table = Frequent(2)
    for source, amount in (("a", 5), ("b", 1), ("a", 2)):
        table.note(("", source), amount)
    assert table.of(("", "a")) == Weighed(amount=7, times=2)
    assert table.of(("", "c")) == Weighed()
    assert table.note(("", "c")) == Weighed(amount=1, times=1, error=1)
    assert table.of(("", "b")) == Weighed(error=2), "may be as much as c's"
    assert table.worst(5) == [(7, ("", "a")), (1, ("", "c"))]
