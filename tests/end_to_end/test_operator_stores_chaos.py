"""End to end, marked `chaos`: a year of a store that refuses, loses data and goes away.

A worker writes results throughout, and a sink stores them in PostgreSQL. The reader at the end
knows only the topic and the table (tests/end_to_end/test_operator_chaos.py has other chapters).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from infra.postgres import PostgresServer
from tests.end_to_end.day import Day
from tests.end_to_end.oracle import check
from tests.end_to_end.records import Read, read_all
from tests.end_to_end.setting import Settles
from tests.end_to_end.worker import REFUSED, Spawned, Worker, at_work
from tests.sinks.sink_process import SinkProcess, served
from tests.sinks.topic import group_has_read
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.kafka,
    pytest.mark.postgres,
    pytest.mark.timeout(900),
]

TABLE: Final = "results"
QUERIES: Final = """queries:
  load: {window: tumbling 250ms, key: payload.source, aggregate: {n: count(), mean: avg(payload.v)}}
"""
REFUSALS: Final = {
    "violates check constraint": (
        f"alter table {TABLE} add constraint nothing_new check (revision < 0) not valid",
        f"alter table {TABLE} drop constraint nothing_new",
    ),
    "violates not-null constraint": (
        (
            f"alter table {TABLE} add site text not null default 'a';"
            f" alter table {TABLE} alter site drop default"
        ),
        f"alter table {TABLE} drop site",
    ),
}
"""Statements that make the store refuse every result, and accept them again, by its message."""

FORGETTING: Final = (f"drop table {TABLE}", f"truncate {TABLE}")
IN_A_ROW: Final = 20
"""Number of refusals in a row that are the store's fault, not the results'
(docs/guides/results.md)."""

BEGUN_REFUSED: Final = 3 * len(REFUSALS)
"""Number of times that a sink meets a store that refuses: three for each refusal, one of them
at a start."""

Row = dict[str, Any]


class Store:
    """A store to act on: the table and its server, the sink that fills it, and the worker that
    writes the results.
    """

    def __init__(
        self, server: PostgresServer, plain: SinkProcess, refilling: SinkProcess, worker: Worker
    ) -> None:
        self._server, self._worker = server, worker
        self.sinks = self._plain, self._refilling = plain, refilling
        self.sink = plain

    def acts(self) -> list[Callable[[], None]]:
        return [
            *(partial(self._refuse, says) for says in REFUSALS),
            *(partial(self._refuse_while_killed, says) for says in REFUSALS),
            *(partial(self._forget, how) for how in FORGETTING),
            *(partial(self._forget_between_starts, how) for how in FORGETTING),
            *(self._go_away, self._go_away, self._kill, self._kill, self._stop_and_start),
            self._kill_worker,
        ]

    def _run(self, statement: str) -> None:
        with psycopg.connect(self._server.url) as connection:
            connection.execute(statement)

    def _refuse(self, says: str, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Let the store refuse results; the sink waits, as for an unreachable store, and reports
        the message.
        """
        begin, end = REFUSALS[says]
        self._await_written()
        self._run(begin)
        self._await(lambda: says in str(self.sink.ask("ready")), f"the sink to say that it {says}")
        meanwhile()
        self._run(end)
        self._await_written()

    def _refuse_while_killed(self, says: str) -> None:
        self._refuse(says, self._kill)

    def _forget(self, how: str) -> None:
        """Lose the table's data while the sink runs, and wait until the results are read again."""
        self._await_written()
        before = self.sink.metrics().get("refills", 0) if self.sink is self._refilling else 0
        self._run(how)
        self._await_refilled(before)

    def _forget_between_starts(self, how: str) -> None:
        self._await_written()
        assert self.sink.process.stop() == 0, self.sink.log
        self._run(how)
        self._start(self._plain)
        self._await_refilled(0)

    def _await_refilled(self, before: float) -> None:
        self._await(
            lambda: self.sink is self._refilling and self.sink.metrics().get("refills", 0) > before,
            "the results to be read again",
        )

    def tend(self) -> str:
        """Start a sink with --refill if the current one asks for it, and return the current sink's
        log.
        """
        if self.sink is self._plain and not self.sink.process.is_alive():
            assert self.sink.process.stop() == REFUSED, self.sink.log
            assert "lacks results" in self.sink.log
            assert "Start the sink with --refill" in self.sink.log
            self._start(self._refilling)
        return self.sink.log

    def _await(self, true: Callable[[], bool], what: str) -> None:
        wait_until(true, what, self.tend)

    def _go_away(self) -> None:
        self._server.kill()
        self._server.start()
        self._await_written()

    def _kill(self) -> None:
        self.sink.process.kill()
        self._start(self.sink)

    def _stop_and_start(self) -> None:
        """Stop the sink, and start it without --refill."""
        assert self.sink.process.stop() == 0, self.sink.log
        self._start(self._plain)

    def _kill_worker(self) -> None:
        self._worker.kill_all()
        self._worker.start()

    def _start(self, sink: SinkProcess) -> None:
        self.sink = sink
        sink.start()

    def _await_written(self) -> None:
        """Wait until the sink has written more results."""
        self.tend()
        begin = self.sink.metrics().get("written", 0)
        self._await(lambda: self.sink.metrics().get("written", 0) > begin, "more to be written")


def newest_of(records: list[Read]) -> dict[str, Row]:
    newest: dict[str, Row] = {}
    for record in records:
        if not record.is_control:
            row = json.loads(record.value or b"")
            if row["revision"] > newest.get(row["id"], {"revision": -1})["revision"]:
                newest[row["id"]] = row
    return newest


def rows_of(server: PostgresServer) -> dict[str, Row]:
    with psycopg.connect(server.url) as connection:
        found = connection.execute(f"select id, revision, op, record from {TABLE}").fetchall()
    rows = {id_: record for id_, _, _, record in found}
    assert len(rows) == len(found)
    for id_, revision, op, record in found:
        assert (record["id"], record["revision"], record["op"]) == (id_, revision, op)
    return rows


def test_table_ends_with_current_results(
    settles: Settles,
    own_postgres: PostgresServer,
    tmp_path: Path,
    say: Callable[[str], None],
) -> None:
    """At the end the table has each emitted id once, with the last revision.

    Only a few results that were refused one by one can be missing or outdated, and each of them has
    its dead letter.
    """
    setting = settles(stages="reorder+merge, window", partitions=1, more=QUERIES)
    topic = setting.topology.topics.windows
    group = f"{topic}.postgres"
    where = ("--postgres", own_postgres.url, "--table", TABLE)
    source = ("postgres", "--brokers", setting.bootstrap, "--topic", topic, "--group", group)
    plain = SinkProcess("plain", tmp_path / "plain", *source, *where)
    refilling = SinkProcess("refilling", tmp_path / "refilling", *source, *where, "--refill")
    with at_work(setting, kind=Spawned) as worker, served([plain]):
        store = Store(own_postgres, plain, refilling, worker)
        try:
            day = Day(say)
            day.plan(store.acts())
            day.go_through(
                setting,
                store.tend,
                value=lambda row: json.dumps({"source": row.source, "v": row.seq % 7}).encode(),
            )
            assert worker.stop() == 0, worker.log[-3000:]
            records = read_all(setting.bootstrap, topic)
            ends = {record.partition: record.offset + 1 for record in records}
            has_read = partial(group_has_read, setting.bootstrap, topic, group, ends)
            wait_until(has_read, "the sink to have read all", store.tend)
            assert store.sink.process.stop() == 0, store.sink.log
        finally:
            refilling.process.kill()
    letters = [each for sink in store.sinks for each in sink.dead_letters]
    verdict = check(setting)
    expected, found = newest_of(records), rows_of(own_postgres)
    say(f"{verdict}; {len(found)} rows of {len(records)} records, {len(letters)} dead letters")
    assert not verdict.faults, verdict
    refused = {(each["id"], each["revision"]) for each in letters}
    unlike = {id_ for id_ in {**expected, **found} if found.get(id_) != expected.get(id_)}
    assert {(id_, expected[id_]["revision"]) for id_ in unlike} <= refused
    assert len(refused) < IN_A_ROW * BEGUN_REFUSED
