"""End to end: matches through Kafka, workers killed in mid-flow, equal those of the topic.

The judge is the engine over the ordered topic in one go, in order; that the engine is right is
the matter of tests/topology/pattern.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.workloads import crowd
from tests.end_to_end.judge import judge
from tests.end_to_end.records import Read, Reader, Sender, read_all
from tests.end_to_end.replaying import run_cli
from tests.end_to_end.setting import Setting, settle
from tests.end_to_end.trouble import Trouble, play, stop_all
from tests.end_to_end.waiting import Emitted
from tests.end_to_end.worker import Worker, running
from tests.services import SharedKafka
from topology.event import Event
from topology.pattern.compiled import Compiled
from topology.pattern.engine import Engine
from topology.pattern.entry import Entry
from topology.pattern.parse import parse_query
from topology.pattern.syntax import Query
from topology.result import MatchResult

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(240)]

EVENTS = 14_000
SPEED = 0.2
TIMEOUT_S = 60.0

RISE = """PATTERN SEQ(_ a, _+ b[], _ c)
    WHERE a.source = 's01' AND b.source = 's02' AND c.source = 's03'
    WITHIN 30 ms USING skip_till_any MATCHES MAXIMAL"""
QUIET = """PATTERN SEQ(_ a, !_ n, _ b)
    WHERE a.source = 's04' AND n.source = 's05' AND b.source = 's06'
    WITHIN 50 ms"""
ALONE = """PATTERN SEQ(_ a, !_ n)
    WHERE a.source = 's07' AND n.source = 's08'
    WITHIN 5 ms"""

QUERIES = f"""queries:
  rise: {{pattern: {json.dumps(RISE)}}}
  quiet: {{pattern: {json.dumps(QUIET)}}}
  alone: {{pattern: {json.dumps(ALONE)}, finals: true}}
"""

Members = tuple[tuple[Any, ...], ...]
Content = tuple[str, Members]


def in_time(setting: Setting) -> list[Read]:
    """The events of the ordered topic, but for those behind a complete frontier that it had
    told: the first ones of a source nobody knew of. Who reads the raw topic takes these too."""
    found, frontier_ns, behind = [], 0, 0
    for record in read_all(setting.bootstrap, setting.ordered):
        if record.header("kind") == "watermark":
            frontier_ns = max(frontier_ns, record.number("complete"))
        elif record.number("refTs") >= frontier_ns or setting.topology.patterns_read == "raw":
            found.append(record)
        else:
            behind += 1
    assert behind < len(found) / 50
    return found


def matches_of(records: Sequence[Read], query: Query) -> dict[Members, int]:
    """What the events, in order, come to, and when each match starts."""
    engine = Engine([Compiled(query)])
    for entry in sorted(map(_entry, records), key=lambda each: each.key):
        engine.accept(entry, 0)
    engine.end(0)
    found = {}
    for finding in engine.findings:
        assert isinstance(finding, MatchResult)
        assert finding.revision == 0
        members = tuple((m.alias, m.source, m.epoch, m.seq) for m in finding.members)
        found[members] = finding.start_ns
    return found


def in_one_go(setting: Setting) -> set[Content]:
    """The matches of all queries of the file."""
    records = in_time(setting)
    return {
        (name, members)
        for name, query in setting.topology.queries.items()
        if query.pattern is not None
        for members in matches_of(records, query.pattern)
    }


def _entry(record: Read) -> Entry:
    source, epoch, seq = record.name
    event = Event("default", source, epoch, seq, record.number("refTs"), 0)
    return Entry(event, None)


class Standing:
    """The results topic as one who reads it to its end believes it."""

    def __init__(self, setting: Setting) -> None:
        self._reader = Reader(setting.bootstrap, setting.topology.topics.matches)
        self._taken = 0
        self._revisions: dict[str, int] = {}
        self.lines: dict[str, dict[str, Any]] = {}
        self.corrections = 0

    def poll(self) -> set[Content]:
        self._reader.poll()
        for record in self._reader.records[self._taken :]:
            line = json.loads(record.value or b"")
            assert (record.key or b"").decode() == line["id"]
            assert line["revision"] == self._revisions.get(line["id"], -1) + 1, line
            self._revisions[line["id"]] = line["revision"]
            self.corrections += line["op"] != "emit"
            if line["op"] == "retract":
                del self.lines[line["id"]]
            else:
                self.lines[line["id"]] = line
        self._taken = len(self._reader.records)
        return {
            (
                line["query"],
                tuple((e["alias"], e["source"], e["epoch"], e["seq"]) for e in line["events"]),
            )
            for line in self.lines.values()
        }

    def await_truth(self, expected: set[Content]) -> None:
        deadline_s = time.monotonic() + TIMEOUT_S
        while (found := self.poll()) != expected:
            assert time.monotonic() < deadline_s, (
                f"{len(expected - found)} missing of {len(expected)}, {len(found - expected)} too"
                f" many, like {sorted(expected - found)[:2]} and {sorted(found - expected)[:2]}"
            )

    def close(self) -> None:
        self._reader.close()


@pytest.mark.parametrize(
    ("stages", "partitions", "reads"),
    [
        ("reorder, merge, pattern", 2, "ordered"),
        ("reorder+merge+pattern", 1, "ordered"),
        ("reorder+merge, pattern", 1, "raw"),
    ],
    ids=["split", "fused", "raw"],
)
def test_matches_under_kills(
    kafka: SharedKafka, tmp_path: Path, stages: str, partitions: int, reads: str
) -> None:
    more = f"{QUERIES}patterns_read: {reads}\n"
    setting = settle(kafka.bootstrap, tmp_path, stages=stages, partitions=partitions, more=more)
    script = [(0.3, Trouble.kill_stages), (0.7, Trouble.kill_worker)]
    play(setting, tmp_path, crowd(EVENTS, seed=5).rows, SPEED, script)
    verdict = judge(setting)
    assert not verdict.faults, verdict
    expected = in_one_go(setting)
    assert len(expected) > 1_000
    worker = Worker("last", setting.path, setting.bootstrap, tmp_path)
    standing = Standing(setting)
    with running(worker):
        worker.wait_ready()
        standing.await_truth(expected)
        stop_all([worker])
    print(f"{len(expected)} matches, {standing.corrections} corrections")
    standing.close()


def await_query(worker: Worker, name: str) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        _, answer = worker.ask("explain")
        if name in json.dumps(answer):
            return
        assert time.monotonic() < deadline_s, answer
        time.sleep(0.1)


def await_all_since_the_first(standing: Standing, every: dict[Members, int]) -> int:
    """Until the matches told are all there are from some instant on; that instant."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        found = {members for query, members in standing.poll() if query == "late_comer"}
        since_ns = min((every[members] for members in found), default=0)
        if found and found == {m for m, start_ns in every.items() if start_ns >= since_ns}:
            return since_ns
        assert time.monotonic() < deadline_s, f"{len(found)} matches of {len(every)}"


def test_a_query_comes_and_goes_while_workers_run(kafka: SharedKafka, tmp_path: Path) -> None:
    """It counts from that moment on, also after a kill; what it said stays."""
    more = "live_queries: true\n"
    stages = "reorder+merge, pattern"
    setting = settle(kafka.bootstrap, tmp_path, stages=stages, partitions=1, more=more)
    where = ("--topology", str(setting.path), "--brokers", kafka.bootstrap)
    rows = crowd(8_000, seed=6).rows
    worker = Worker("only", setting.path, setting.bootstrap, tmp_path)
    standing = Standing(setting)
    with running(worker):
        worker.wait_ready()
        emitted = Emitted(setting)
        Sender(setting, rows[:3_000]).start().finish()
        emitted.wait_for(len({(row.source, row.seq) for row in rows[:2_500]}), TIMEOUT_S)
        added = run_cli("query", "add", "late_comer", *where, "--pattern", RISE)
        assert added.returncode == 0, added.stderr.decode()
        listed = run_cli("query", "list", *where)
        assert b"late_comer" in listed.stdout, listed
        await_query(worker, "late_comer")
        sender = Sender(setting, rows[3_000:], speed=SPEED).start()
        while sender.share < 0.5:
            emitted.poll()
        worker.kill_stage(1)
        sender.finish()
        emitted.wait_for(len({(row.source, row.seq) for row in rows}), TIMEOUT_S)
        emitted.close()
        every = matches_of(in_time(setting), parse_query(RISE))
        since_ns = await_all_since_the_first(standing, every)
        assert min(every.values()) < since_ns
        removed = run_cli("query", "remove", "late_comer", *where)
        assert removed.returncode == 0, removed.stderr.decode()
        again = run_cli("query", "remove", "late_comer", *where)
        assert again.returncode == 2
        assert b"there are: none" in again.stderr
        stop_all([worker])
    assert len(standing.lines) > 50
    standing.close()
