"""Law: a live job gives the lines of a replay of the same log, byte for byte, without Spark.
Batches vary, some have only transaction markers, and the job is stopped, retried and restored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from random import Random

import pytest

from spark_analytics.backfill.parcels import Groups
from spark_analytics.live import state
from spark_analytics.live.group import LiveGroup, PartitionParcel
from spark_analytics.live.partitions import PartitionName
from spark_analytics.live.reading import hidden_parcels, parcels_of
from tests.spark_analytics.backfill.outputs import Lines, each_apart
from tests.spark_analytics.live import logs
from tests.spark_analytics.live.logs import Log
from tests.spark_analytics.records import MS, Record
from topology.config import Topology, parse
from topology.records.json_lines import encode_line

FEW = range(12)
MANY = range(1_000, 1_250)
QUIET_MS = 100_000
"""Time after the end of the log, by which every timer is due."""


@dataclass
class Store:
    """A group's state as Spark keeps it."""

    snapshot: bytes = b""
    entries: list[bytes] = field(default_factory=list)

    def opened(self, topology: Topology, group: int, names: Sequence[PartitionName]) -> LiveGroup:
        saved_group = state.fold(self.snapshot, self.entries) if self.snapshot else None
        return LiveGroup(topology, group, names, saved_group)

    def keep(self, live: LiveGroup, rng: Random) -> None:
        if not self.snapshot or rng.random() < 0.2:
            self.snapshot, self.entries = live.snapshot(), []
        else:
            self.entries.append(live.take_changes())


class Job:
    """A job in this process that reads the log up to a time, in pieces of any size."""

    def __init__(self, topology: Topology, log: Log, rng: Random) -> None:
        self._topology = topology
        self._log = log
        self._rng = rng
        self._read = dict.fromkeys(log, 0)
        self.names = logs.names_of(log)
        self._stores = [Store() for _ in range(len(Groups(topology)))]
        self._running: dict[int, LiveGroup] = {}
        self.lines: Lines = defaultdict(list)

    def batch(self, now_ms: int) -> None:
        taken: dict[int, list[PartitionParcel]] = defaultdict(list)
        for log, records in self._log.items():
            if self._is_new(log, records, now_ms) and self._rng.random() < 0.1:
                for group, parcel in hidden_parcels(self._topology):  # only markers
                    taken[group].append(parcel)
                continue
            for stretch in self._stretches(log, records, now_ms):
                for group, parcel in parcels_of(self._topology, map(logs.values_of, stretch)):
                    taken[group].append(parcel)
        quiet_ns = (now_ms - 1) * MS
        for group, store in enumerate(self._stores):
            live = self._running.pop(group, None)
            if live is None or self._rng.random() < 0.3:
                live = store.opened(self._topology, group, self.names)
            if self._rng.random() < 0.1:  # an attempt that fails, whatever it has done
                live.take(taken[group], quiet_ns) if taken else live.rest(quiet_ns)
                live = store.opened(self._topology, group, self.names)
            due_ns = live.due_ns()
            if not taken and (due_ns is None or due_ns >= quiet_ns):
                continue  # a batch has no timer
            self._rng.shuffle(taken[group])
            said = live.take(taken[group], quiet_ns) if taken else live.rest(quiet_ns)
            store.keep(live, self._rng)
            self._running[group] = live
            for each in said:
                of_kind = self.lines[each.line["stream"], each.line["kind"]]
                assert each.position == len(of_kind)
                of_kind.append(encode_line(each.line).decode())

    def _is_new(self, log: tuple[str, int], records: Sequence[Record], now_ms: int) -> bool:
        read = self._read[log]
        return read < len(records) and records[read].stamp_ms <= now_ms

    def _stretches(
        self, log: tuple[str, int], records: Sequence[Record], now_ms: int
    ) -> list[list[Record]]:
        if not self._is_new(log, records, now_ms):
            return []
        begin = end = self._read[log]
        while end < len(records) and records[end].stamp_ms <= now_ms:
            end += 1
        self._read[log] = end = self._rng.randint(begin + 1, end)
        cut = self._rng.randint(begin, end)
        return [list(part) for part in (records[begin:cut], records[cut:end]) if part]

    @property
    def is_at_end(self) -> bool:
        return all(self._read[log] == len(records) for log, records in self._log.items())


def agrees(seed: int, folder: Path) -> set[str]:
    """Assert that a live job matches a replay, and return the kinds of lines."""
    rng = Random(seed)
    topology = parse(logs.topology(rng))
    log = logs.log(rng, folder, 120, partitions=rng.choice((1, 1, 2, 3)))
    job = Job(topology, log, rng)
    now_ms = min(records[0].stamp_ms for records in log.values() if records)
    longest_ms = rng.choice((1_000, 5_000, 30_000, 10_000_000))
    while not job.is_at_end:
        job.batch(now_ms)
        now_ms += rng.randrange(longest_ms)
    now_ms += QUIET_MS
    job.batch(now_ms)
    wanted = logs.replayed(topology, logs.dumped(topology, chain(*log.values())), (now_ms - 1) * MS)
    assert dict(job.lines) == wanted, seed
    return {kind for _, kind in wanted}


@pytest.mark.parametrize("seed", FEW)
def test_live_job_matches_replay(seed: int, tmp_path: Path) -> None:
    assert agrees(seed, tmp_path) >= {"event", "gap"}


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_more_live_jobs_match_replays(tmp_path: Path) -> None:
    kinds = set[str]().union(*each_apart(MANY, tmp_path, agrees))
    assert kinds >= {"event", "gap", "late", "duplicate", "dead", "window", "match", "join"}
