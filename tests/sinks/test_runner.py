"""Examples: commits of offsets, back-pressure, and the outcome of each record.

The consumer here is scripted; `test_sinks_on_kafka.py` uses a real one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from prometheus_client import CollectorRegistry, generate_latest

from sinks import result as kinds_of_result
from sinks.counts import SinkCollector
from sinks.dead import DeadLetter
from sinks.marks import Bookmarks, WhenBehind
from sinks.refusals import IN_A_ROW, Refusals
from sinks.result import Result
from sinks.runner import TOO_LARGE, Runner, RunnerLimits, SourceFailed
from sinks.sink import REFUSED, Progress, Reader, Refused, SinkUnavailable, SinkUnusable
from tests.kit.clock import Clock
from tests.sinks.results import MemorySink, record

LIMITS = RunnerLimits(batch_wait_s=0.005, retry_pause_s=0.01, max_retry_pause_s=0.02)


CLOCK = Clock()
"""A clock that advances only where the runner waits."""


@pytest.fixture(autouse=True)
def _scripted_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sinks.runner.time", CLOCK)


@dataclass
class Record:
    """A message with the parts that the runner reads, each from a method as in the client."""

    place: int
    content: bytes | None
    id_: bytes | None = b"a"
    trouble: KafkaError | None = None
    of: int = 0

    def __getattr__(self, name: str) -> Callable[[], Any]:
        if name == "headers":
            raise SystemError("no sink may ask for them: a name that is no UTF-8 breaks the client")
        meant = {"offset": "place", "value": "content", "key": "id_"}
        meant |= {"error": "trouble", "partition": "of"}
        return lambda: vars(self)[meant[name]]


NO_OFFSET = KafkaError(KafkaError._AUTO_OFFSET_RESET)
AT_END = KafkaError(KafkaError._PARTITION_EOF)


class ScriptedConsumer:
    """A consumer that returns the given records, then stops the runner; `log` records the calls."""

    def __init__(self, records: Sequence[Record], log: list[Any], partitions: int = 1) -> None:
        self.records = list(records)
        self.log = log
        self.at_the_end: Callable[[], None] = lambda: None
        self.while_paused: list[Record] = []
        self.while_waiting: Callable[[], None] = lambda: None
        self._partitions = [TopicPartition("results", number) for number in range(partitions)]
        self.assigned_at: list[int] = []
        self._assigned = False
        self._was_empty = False
        self.committed_offset = -1001
        self.lowest = 0
        self.ask_failures = 0

    def subscribe(self, topics: list[str], *, on_assign: Any, on_revoke: Any, on_lost: Any) -> None:
        self.on_assign, self.on_revoke = on_assign, on_revoke

    def committed(self, places: list[TopicPartition], _: float) -> list[SimpleNamespace]:
        """Fail as the client does: for the whole request, or for a partition."""
        error = KafkaError(KafkaError.NOT_COORDINATOR) if self.ask_failures else None
        self.ask_failures -= error is not None
        if self.ask_failures % 2:
            raise KafkaException(error)
        offset = -1001 if error else self.committed_offset
        return [SimpleNamespace(offset=offset, error=error) for _ in places]

    def get_watermark_offsets(self, _: TopicPartition, __: float) -> tuple[int, int]:
        return self.lowest, 10_000

    def __getattr__(self, name: str) -> Callable[[list[TopicPartition]], None]:
        if name not in ("incremental_assign", "incremental_unassign", "pause", "resume"):
            raise AttributeError(name)
        what = name.removeprefix("incremental_")

        def told(places: list[TopicPartition]) -> None:
            self.log.append((what, [place.partition for place in places]))
            if what == "assign":
                self.assigned_at += [place.offset for place in places]

        return told

    def consume(self, count: int, timeout_s: float) -> list[Record]:
        """Wait if no record is left; the second such call belongs to another batch."""
        if not self._assigned:
            self._assigned = True
            self.on_assign(self, self._partitions)
        found, self.records = self.records[:count], self.records[count:]
        if not found:
            if self._was_empty:
                self.at_the_end()
            self._was_empty = True
            CLOCK.sleep(timeout_s)
        return found

    def poll(self, timeout_s: float) -> Record | None:
        if not self.while_paused:
            self.while_waiting()
            CLOCK.sleep(timeout_s)
            return None
        return self.while_paused.pop(0)

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
        assert not asynchronous
        self.log.append(("commit", {place.partition: place.offset for place in offsets}))
        return offsets

    def close(self) -> None:
        self.log.append(("close", "consumer"))


class LoggedSink(MemorySink):
    """A sink whose first `fails` writes fail, and which refuses the ids in `refuses`."""

    def __init__(self, log: list[Any]) -> None:
        super().__init__()
        self.log = log
        self.fails = 0
        self.refuses: set[str] = set()
        self.cause = ""
        self.on_fail: Callable[[], None] = lambda: None

    def write(
        self, results: Sequence[Result], progress: Progress | None = None
    ) -> Sequence[Refused]:
        if self.fails:
            self.fails -= 1
            self.on_fail()
            raise SinkUnavailable("the store is away")
        if results:
            self.log.append(("write", [each.revision for each in results]))
        super().write([each for each in results if each.id not in self.refuses], progress)
        refused = [each for each in results if each.id in self.refuses]
        return [Refused(each, "no room", self.cause) for each in refused]

    def close(self) -> None:
        self.log.append(("close", "sink"))


class LoggedLetters:
    def __init__(self, log: list[Any]) -> None:
        self.log = log
        self.letters: list[DeadLetter] = []
        self.fails = 0

    def write(self, letters: Sequence[DeadLetter]) -> None:
        if self.fails:
            self.fails -= 1
            raise SinkUnavailable("the side topic is away")
        self.log.append(("letters", [each.offset for each in letters]))
        self.letters += letters

    def close(self) -> None:
        self.log.append(("close", "letters"))


class Setting:
    """A runner with a scripted consumer, sink and side topic."""

    def __init__(
        self,
        records: Sequence[Record],
        limits: RunnerLimits = LIMITS,
        partitions: int = 1,
        set_aside: Sequence[str] = (),
        when_behind: WhenBehind = WhenBehind.REFUSE,
    ) -> None:
        self.log: list[Any] = []
        self.consumer = ScriptedConsumer(records, self.log, partitions)
        self.sink = LoggedSink(self.log)
        self.letters = LoggedLetters(self.log)
        consumer: Any = self.consumer
        refusals = Refusals(set_aside)
        marks = Bookmarks(self.sink, Reader("group", "results"), when_behind)
        self.runner = Runner(consumer, "results", self.sink, marks, self.letters, limits, refusals)
        self.consumer.at_the_end = self.runner.stop

    def run(self) -> list[Any]:
        self.runner.run()
        closed = [("close", "sink"), ("close", "letters"), ("close", "consumer")]
        assert self.log[-3:] == closed
        return self.log[1:-3]


def updates(*revisions: int) -> list[Record]:
    return [Record(number, record("a", each)) for number, each in enumerate(revisions)]


def assert_fails(setting: Setting, error: type[Exception], says: str) -> None:
    """Assert that the runner fails with this error and commits nothing."""
    with pytest.raises(error, match=says):
        setting.runner.run()
    assert setting.log[-1] == ("close", "consumer")
    assert not any(step == "commit" for step, _ in setting.log)


def test_batch_is_bounded() -> None:
    limits = RunnerLimits(batch_records=2, batch_wait_s=0.4)
    steps = Setting(updates(0, 1, 2), limits).run()
    assert steps == [
        ("write", [0, 1]),
        ("commit", {0: 2}),
        ("write", [2]),
        ("commit", {0: 3}),
    ]
    limits = RunnerLimits(batch_bytes=1, batch_wait_s=0.4)
    steps = Setting(updates(*range(150)), limits).run()
    assert [len(what) for step, what in steps if step == "write"] == [1] * 150


def test_large_record_is_dead_letter() -> None:
    large = record("large", 0) + b" " * 1_000
    records = [*updates(0), Record(1, large, b"large"), Record(2, record("a", 1))]
    setting = Setting(records, RunnerLimits(batch_wait_s=0.005, record_bytes=1_000))
    assert setting.run() == [("write", [0, 1]), ("letters", [1]), ("commit", {0: 3})]
    assert setting.letters.letters[0].reason == TOO_LARGE


def test_each_record_is_counted_once() -> None:
    setting = Setting(
        [
            Record(0, record("a", 0)),
            Record(1, None, b""),
            Record(2, b"{"),
            Record(3, None),
            Record(4, record("b", 7), b"b"),
            Record(5, record("a", 1, "retract")),
            Record(6, b'{"kind": "overflow", "query": "q"}', b"q"),
        ]
    )
    setting.sink.refuses = {"b"}
    steps = setting.run()
    assert steps == [("write", [0, 7, 1]), ("letters", [2, 3, 4]), ("commit", {0: 7})]
    letters = [(each.offset, each.reason, each.revision) for each in setting.letters.letters]
    assert letters == [
        (2, kinds_of_result.NOT_JSON, None),
        (3, kinds_of_result.VALUE_MISSING, None),
        (4, REFUSED, 7),
    ]
    counts = setting.runner.counts
    assert counts.records == 7
    assert counts.written.total() + counts.dead.total() + counts.control == 7
    assert (counts.control, counts.dead.total()) == (2, 3)
    assert counts.written["retract"] == 1


def test_counts_become_metrics() -> None:
    setting = Setting([*updates(0, 1), Record(2, b"{")])
    setting.run()
    registry = CollectorRegistry()
    registry.register(SinkCollector(setting.runner.counts))
    text = generate_latest(registry).decode()
    assert "inorder_sink_records_total 3.0" in text
    assert 'inorder_sink_written_total{op="emit"} 1.0' in text
    assert 'inorder_sink_dead_total{reason="not_json"} 1.0' in text
    assert "inorder_sink_waiting 0.0" in text


def test_nothing_is_committed_without_store(
    caplog: pytest.LogCaptureFixture,
) -> None:
    setting = Setting(updates(0, 1))
    setting.sink.fails = 5
    seen: list[str] = []
    setting.sink.on_fail = lambda: seen.append(setting.runner.counts.trouble)
    with caplog.at_level(logging.WARNING, "inorder.sink"):
        steps = setting.run()
    assert steps == [("pause", [0]), ("write", [0, 1]), ("resume", [0]), ("commit", {0: 2})]
    assert seen == ["", *["the store is away"] * 4]
    counts = setting.runner.counts
    assert (counts.waits, counts.trouble, counts.written.total()) == (5, "", 2)
    tries = [each for each in caplog.messages if "next try" in each]
    assert [each.split(" s:")[0][-4:] for each in tries] == ["0.01", *["0.02"] * 4]


def test_record_in_wait_is_written_later() -> None:
    """A new partition can deliver a record before it is paused."""
    setting = Setting(updates(0))
    setting.sink.fails = 1
    setting.consumer.while_paused = [Record(1, record("a", 1))]
    written = setting.sink.log
    seen: list[int] = []

    def stop_when_written() -> None:
        seen.append(1)
        if ("write", [1]) in written or len(seen) > 100:
            setting.runner.stop()

    setting.consumer.at_the_end = stop_when_written
    steps = setting.run()
    assert steps == [
        ("pause", [0]),
        ("write", [0]),
        ("resume", [0]),
        ("commit", {0: 1}),
        ("write", [1]),
        ("commit", {0: 2}),
    ]


def test_runner_waits_for_side_topic() -> None:
    setting = Setting([Record(0, b"{"), *updates(0, 1)[1:]])
    setting.letters.fails = 1
    assert setting.run() == [
        ("write", [1]),
        ("pause", [0]),
        ("write", [1]),
        ("letters", [0]),
        ("resume", [0]),
        ("commit", {0: 2}),
    ]
    assert setting.runner.counts.written.total() == 1


def test_stop_during_wait_commits_nothing() -> None:
    setting = Setting(updates(0))
    setting.sink.fails = 10**9
    setting.sink.on_fail = setting.runner.stop
    assert setting.run() == []
    assert setting.runner.counts.written.total() == 0


def test_revoked_partition_is_not_committed() -> None:
    records = [Record(7, record("a", 0), of=number) for number in (0, 1)]
    setting = Setting(records, partitions=2)
    setting.sink.fails = 1
    taken = [TopicPartition("results", 1)]
    setting.sink.on_fail = lambda: setting.consumer.on_revoke(setting.consumer, taken)
    assert setting.run()[-1] == ("commit", {0: 8})
    assert setting.sink.positions == {0: 8, 1: 0}, "another member of the group moves that mark"


def test_partition_is_paused_during_wait() -> None:
    setting = Setting(updates(0))
    setting.sink.fails = 2
    new = [TopicPartition("results", 3)]
    failures: list[int] = []

    def at_the_second() -> None:
        failures.append(1)
        if len(failures) == 2:
            setting.consumer.on_assign(setting.consumer, new)

    setting.sink.on_fail = at_the_second
    steps = setting.run()
    assert steps[:3] == [("pause", [0]), ("assign", [3]), ("pause", [3])]
    assert ("resume", [0, 3]) in steps


@pytest.mark.parametrize(
    "code", [KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED]
)
def test_deleted_topic_ends_runner(code: int) -> None:
    setting = Setting([*updates(0), Record(0, None, trouble=KafkaError(code))])
    assert_fails(setting, SourceFailed, "topic results")


def test_fatal_error_ends_runner() -> None:
    setting = Setting(updates(0))
    fatal = KafkaException(KafkaError(KafkaError._FATAL))
    setting.consumer.consume = Mock(side_effect=fatal)  # type: ignore[method-assign]
    assert_fails(setting, SourceFailed, "topic results")


@pytest.mark.parametrize(("committed", "expired"), [(-1001, 0), (0, 40), (30, 10), (90, 0)])
def test_missing_offset_starts_at_first(
    committed: int, expired: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A group's offset can be missing, before the topic's first offset, or after its end."""
    setting = Setting([Record(0, None, trouble=NO_OFFSET), Record(40, record("a", 0))])
    setting.consumer.committed_offset = committed
    setting.sink.positions = {0: max(0, committed)}
    setting.consumer.lowest = 40
    setting.consumer.ask_failures = 2
    steps = setting.run()
    assert steps == [("unassign", [0]), ("assign", [0]), ("write", [0]), ("commit", {0: 41})]
    assert setting.runner.counts.expired == expired
    assert (f"the next offset to read, {committed}, no longer exists" in caplog.text) == (
        committed >= 0
    )


def test_unreadable_offsets_end_the_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sinks.runner.BEGIN_TIMEOUT_S", 0.1)
    setting = Setting([Record(0, None, trouble=NO_OFFSET)])
    setting.consumer.ask_failures = 10**9
    assert_fails(setting, SourceFailed, "topic results")


def test_broker_error_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    setting = Setting([Record(0, None, trouble=KafkaError(KafkaError._TRANSPORT)), *updates(0)])
    with caplog.at_level(logging.WARNING, "inorder.sink"):
        assert setting.run() == [("write", [0]), ("commit", {0: 1})]
    assert any("topic results" in each for each in caplog.messages)
    assert setting.runner.counts.records == 1


def test_unusable_store_ends_runner() -> None:
    setting = Setting(updates(0))
    unusable = SinkUnusable("another table")
    setting.sink.write = Mock(side_effect=unusable)  # type: ignore[method-assign]
    assert_fails(setting, SinkUnusable, "another table")


def test_repeated_result_keeps_both_offsets() -> None:
    setting = Setting([Record(0, record("a", 0)), Record(1, record("a", 0))])
    setting.sink.refuses = {"a"}
    setting.run()
    assert [each.offset for each in setting.letters.letters] == [0, 1]
    assert setting.sink.current() == {}


# -- A store that refuses every result -------------------------------------------------------------


def poison(count: int, begin: int = 0) -> list[Record]:
    return [Record(begin + number, record("p", number), b"p") for number in range(count)]


def refusing_runner(records: Sequence[Record], batch: int, **how: Any) -> Setting:
    """Return a runner whose store refuses the ids `p` because of one constraint."""
    setting = Setting(records, RunnerLimits(batch, batch_wait_s=0.4), **how)
    setting.sink.refuses, setting.sink.cause = {"p"}, "no_gaps"
    return setting


@pytest.mark.parametrize("batch", [1, 7, 1_000])
def test_runner_waits_if_all_are_refused(batch: int) -> None:
    setting = refusing_runner(poison(300), batch)
    said: list[str] = []

    def stop() -> None:
        said.append(setting.runner.counts.trouble)
        setting.runner.stop()

    setting.consumer.while_waiting = stop
    setting.runner.run()
    assert "refused" in said[0]
    assert "no room (no_gaps)" in said[0]
    assert "--set-aside no_gaps" in said[0]
    letters = len(setting.letters.letters)
    assert letters < IN_A_ROW
    committed = [max(what.values()) for step, what in setting.log if step == "commit"]
    assert max(committed, default=0) == letters


def test_set_aside_skips_the_named_cause() -> None:
    setting = refusing_runner(poison(300), 7, set_aside=("no_gaps",))
    setting.run()
    assert len(setting.letters.letters) == 300


def test_mixed_refusals_are_dead_letters() -> None:
    ids = ["a" if number % IN_A_ROW == 0 else "p" for number in range(300)]
    records = [Record(at, record(id_, at), id_.encode()) for at, id_ in enumerate(ids)]
    setting = refusing_runner(records, 1)
    setting.run()
    assert len(setting.letters.letters) == 300 - 300 // IN_A_ROW


def test_causeless_refusal_is_dead_letter() -> None:
    setting = refusing_runner(poison(300), 7)
    setting.sink.cause = ""
    setting.run()
    assert len(setting.letters.letters) == 300


# -- A store that was emptied ----------------------------------------------------------------------


def runner_at_90(how: WhenBehind = WhenBehind.REFUSE, mark: int | None = None) -> Setting:
    """Return a runner whose group has read to offset 90; the store has the given mark or none."""
    setting = Setting([Record(90, record("a", 9))], when_behind=how)
    setting.consumer.committed_offset = 90
    if mark is not None:
        setting.sink.positions = {0: mark}
    return setting


@pytest.mark.parametrize(("mark", "reaches"), [(None, 0), (0, 0), (89, 89)])
def test_store_lacking_results_is_refused(mark: int | None, reaches: int) -> None:
    setting = runner_at_90(mark=mark)
    assert_fails(
        setting, SinkUnusable, f"partition 0 reaches offset {reaches} and not 90.*--refill"
    )
    assert setting.sink.known == {}


@pytest.mark.parametrize(
    ("how", "mark"),
    [(WhenBehind.REFUSE, 90), (WhenBehind.REFUSE, 200), (WhenBehind.ADOPT, 30)],
)
def test_store_is_accepted(how: WhenBehind, mark: int) -> None:
    """Records are read again if a user has moved the group's offsets back."""
    setting = runner_at_90(how, mark)
    assert setting.run() == [("write", [9]), ("commit", {0: 91})]
    assert setting.sink.positions == {0: max(mark, 91)}


@pytest.mark.parametrize(("mark", "lowest", "begin"), [(None, 0, 0), (30, 0, 30), (30, 40, 40)])
def test_refill_reads_from_the_mark(
    mark: int | None, lowest: int, begin: int, caplog: pytest.LogCaptureFixture
) -> None:
    setting = runner_at_90(WhenBehind.REFILL, mark)
    setting.consumer.lowest = lowest
    setting.consumer.records.append(Record(begin, record("a", 1)))
    limits = RunnerLimits(batch_records=1, batch_wait_s=0.005)
    setting.runner._limits = limits
    steps = setting.run()
    # Records fetched before the refill are written, and commit nothing.
    assert steps == [
        ("unassign", [0]),
        ("assign", [0]),
        ("write", [9]),
        ("write", [1]),
        ("commit", {0: begin + 1}),
    ]
    assert setting.consumer.assigned_at[-1] == begin
    assert setting.sink.positions == {0: begin + 1}
    counts = setting.runner.counts
    assert (counts.refills, counts.expired) == (1, max(0, lowest - (mark or 0)))
    assert ("has deleted the offsets from 30 up to 40" in caplog.text) == (lowest == 40)


def test_refill_of_empty_topic_ends(caplog: pytest.LogCaptureFixture) -> None:
    setting = runner_at_90(WhenBehind.REFILL)
    setting.consumer.records.clear()
    setting.consumer.lowest = 90
    setting.run()
    assert caplog.text.count("has deleted the offsets from 0 up to 90") == 1
    assert setting.runner.counts.expired == 90
    again = runner_at_90(mark=setting.sink.positions[0])
    assert again.run() == [("write", [9]), ("commit", {0: 91})]


@pytest.mark.parametrize(("end", "mark"), [(89, 30), (90, 90), (92, 92)])
def test_refill_passes_end_markers(end: int, mark: int) -> None:
    """An end before the committed offset means that a transaction is open. Nothing is committed
    then.
    """
    setting = runner_at_90(WhenBehind.REFILL, mark=30)
    setting.runner._limits = RunnerLimits(batch_records=1, batch_wait_s=0.005)
    setting.consumer.records.append(Record(end, None, trouble=AT_END))
    steps = setting.run()
    assert steps[3:] == ([("commit", {0: mark})] if end >= 90 else [])
    assert setting.sink.positions == {0: mark}


def test_only_refill_checks_the_end() -> None:
    setting = Setting([*updates(0), Record(2, None, trouble=AT_END)])
    assert setting.run() == [("write", [0]), ("commit", {0: 1})]


def test_refill_counts_deleted_offsets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    setting = runner_at_90(WhenBehind.REFILL, mark=30)
    setting.runner._limits = RunnerLimits(batch_records=1, batch_wait_s=0.005)
    setting.consumer.records.append(Record(0, None, trouble=NO_OFFSET))
    bounds = Mock(side_effect=[(0, 200), (100, 200)])
    setting.consumer.get_watermark_offsets = bounds  # type: ignore[method-assign]
    setting.run()
    assert "the next offset to read, 30, no longer exists; going on from 100" in caplog.text
    assert setting.runner.counts.expired == 70


def test_deleted_offsets_are_counted_once() -> None:
    setting = runner_at_90(WhenBehind.REFILL, mark=30)
    setting.consumer.records.insert(0, Record(0, None, trouble=NO_OFFSET))
    setting.consumer.lowest = 100
    setting.run()
    assert setting.runner.counts.expired == 70


def test_unmarked_store_is_adopted(caplog: pytest.LogCaptureFixture) -> None:
    setting = runner_at_90()
    setting.sink.is_older = True
    assert setting.run() == [("write", [9]), ("commit", {0: 91})]
    assert "taken to have all that group group has read" in caplog.text
    setting = runner_at_90(mark=30)
    setting.sink.is_older = True
    assert_fails(setting, SinkUnusable, "--refill")


def test_new_partition_needs_no_mark() -> None:
    setting = Setting(updates(0))
    assert setting.run() == [("write", [0]), ("commit", {0: 1})]
    assert setting.sink.positions == {0: 1}


def test_batch_of_dead_letters_moves_mark() -> None:
    setting = Setting([Record(0, b"{")])
    assert setting.run() == [("letters", [0]), ("commit", {0: 1})]
    assert setting.sink.positions == {0: 1}


@pytest.mark.parametrize("how", [WhenBehind.REFUSE, WhenBehind.REFILL])
def test_store_emptied_midway_is_noticed(how: WhenBehind) -> None:
    limits = RunnerLimits(batch_records=1, batch_wait_s=0.4)
    setting = Setting(updates(0, 1), limits, when_behind=how)
    sink = setting.sink

    def consume(count: int, timeout_s: float) -> list[Record]:
        found = ScriptedConsumer.consume(setting.consumer, count, timeout_s)
        if [each.place for each in found] == [1]:
            sink.positions.clear()
            sink.known.clear()
        return found

    setting.consumer.consume = consume  # type: ignore[method-assign]
    setting.consumer.committed_offset = 0
    if how is WhenBehind.REFUSE:
        with pytest.raises(SinkUnusable, match="reaches offset 0 and not 1"):
            setting.runner.run()
        assert ("commit", {0: 2}) not in setting.log
    else:
        setting.run()
        assert setting.consumer.assigned_at[-1] == 0
        assert setting.runner.counts.refills == 1
        assert ("commit", {0: 2}) not in setting.log


def test_store_is_checked_without_records() -> None:
    setting = runner_at_90()
    setting.consumer.records = []
    assert_fails(setting, SinkUnusable, "lacks results")


def test_new_partition_is_checked() -> None:
    setting = Setting(updates(0, 1), RunnerLimits(batch_records=1, batch_wait_s=0.4))
    commit: Any = setting.consumer.commit

    def and_then_more_come(**how: Any) -> Any:
        setting.consumer.committed_offset = 7
        setting.consumer.on_assign(setting.consumer, [TopicPartition("results", 3)])
        return commit(**how)

    setting.consumer.commit = and_then_more_come  # type: ignore[method-assign]
    with pytest.raises(SinkUnusable, match="partition 3 reaches offset 0 and not 7"):
        setting.runner.run()
    assert [what for step, what in setting.log if step == "write"] == [[0]]
