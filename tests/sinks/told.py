"""Results topics of a worker, and the same results from a replay of its log.

Events that are out of order make the queries update and retract windows and matches. One query
overflows its LIMIT.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks.workloads import crowd
from benchmarks.workloads.rows import Row
from tests.cli.invoking import inorder
from tests.end_to_end.records import Headers, Read, Sender, contract, read_all, send
from tests.end_to_end.replaying import dump
from tests.end_to_end.setting import Setting
from tests.end_to_end.worker import at_work
from tests.waiting import Patience

SPEED = 0.1
"""The speed of the workload `crowd`, for these lengths of windows."""

POLL_S = 0.3
BEATS_APART_S = 1.0
"""Seconds between two heartbeats, longer than any wait of the topology."""

GAP = """PATTERN SEQ(_ a, !_ n, _ b)
    WHERE a.source = 's04' AND n.source = 's05' AND b.source = 's06'
    WITHIN 50 ms"""
MANY = """PATTERN SEQ(_ a, _+ b[], _ c)
    WHERE a.source = 's01' AND b.source = 's02' AND c.source = 's03'
    WITHIN 45 ms USING skip_till_any MATCHES ALL LIMIT 2"""
QUERIES = f"""queries:
  gap: {{pattern: {json.dumps(GAP)}}}
  many: {{pattern: {json.dumps(MANY)}, finals: true}}
  load: {{window: tumbling 100ms, key: payload.source, aggregate: {{mean: avg(payload.v)}}}}
  burst: {{window: session 25ms, key: payload.source, aggregate: {{n: count()}}, finals: true}}
tick_lag: 3s
"""
"""The tick lags so far that it makes no record late, which would differ from the replay."""


def as_tables(unique: str) -> str:
    """Return the same queries, each with its own topic."""
    return re.sub(
        r"^  (\w+): \{(?=pattern|window)",
        rf"  \1-{unique}: {{upsert: true, ",
        QUERIES,
        flags=re.MULTILINE,
    )


STREAM = "merge: {new_source_allowance: 0s}"
"""All sources are there from the start, so a final result needs no allowance for new ones."""

COURSE = ("op", "revision", "at")
"""Fields of a result that depend on the run and not on the events."""

Line = dict[str, Any]


def value_of(row: Row) -> bytes:
    return json.dumps({"source": row.source, "v": row.seq % 7}).encode()


def beat(setting: Setting, rows: Sequence[Row]) -> None:
    """Send heartbeats after the last event of every source, and again after all waits.

    This makes everything final, for the worker and for the replay.
    """
    last: dict[str, int] = {}
    for row in rows:
        last[row.source] = max(row.seq, last.get(row.source, 0))
    for number in (1, 2):
        time.sleep(BEATS_APART_S * (number - 1))
        headers: dict[str, Headers] = {
            source: [*contract(source, seq + number, time.time_ns()), ("kind", b"heartbeat")]
            for source, seq in last.items()
        }
        send(setting, [(source, None, found) for source, found in headers.items()])


def is_overflow(line: Line) -> bool:
    return bool(line["kind"] == "overflow")


def standing(lines: Iterable[Line]) -> dict[str, Line]:
    """Return the highest revision of each id that is not retracted."""
    highest: dict[str, Line] = {}
    for line in lines:
        if not is_overflow(line):
            known = highest.setdefault(line["id"], line)
            if line["revision"] > known["revision"]:
                highest[line["id"]] = line
    return {id_: line for id_, line in highest.items() if line["op"] != "retract"}


def content(lines: Iterable[Line]) -> dict[str, Line]:
    return without_course(standing(lines))


def without_course(table: Mapping[str, Line]) -> dict[str, Line]:
    return {
        id_: {name: part for name, part in line.items() if name not in COURSE}
        for id_, line in table.items()
    }


def overflows(lines: Iterable[Line]) -> set[str]:
    return {json.dumps(line | {"at": 0}) for line in lines if is_overflow(line)}


def told(setting: Setting) -> dict[str, list[Read]]:
    """Return all records that the results topics hold now."""
    topics = setting.topology.result_topics.values()
    return {topic: read_all(setting.bootstrap, topic) for topic in topics}


def lines_of(records: Iterable[Read]) -> list[Line]:
    return [json.loads(record.value or b"") for record in records]


def replayed(setting: Setting, path: Path) -> list[Line]:
    """Return the lines of all results topics that a replay of the log prints."""
    dump(setting, path)
    shown = ("--show", "window,match,overflow")
    done = inorder("replay", "--topology", setting.path, *shown, path)
    assert done.code == 0, done.err
    return done.lines


def await_expected(setting: Setting, expected: dict[str, Line]) -> None:
    """Wait until the topics hold exactly the results of the replay."""

    def differ() -> str:
        wrong = [id_ for id_ in {**found, **expected} if found.get(id_) != expected.get(id_)]
        some = [(found.get(id_), expected.get(id_)) for id_ in wrong[:3]]
        return f"{len(wrong)} of {len(expected)} results, which differ: {some}"

    patience = Patience()
    while (found := content(lines_of(chain(*told(setting).values())))) != expected:
        patience.look(found, differ)
        time.sleep(POLL_S)


def worked(
    setting: Setting,
    count: int,
    await_all: Callable[[Setting, dict[str, Line]], None] = await_expected,
    *,
    killed: float | None = None,
) -> list[Line]:
    """Return a replay's results once the worker's topics hold the same results.

    The worker is killed after the share `killed` of the events.
    """
    rows = crowd(count, seed=5).rows
    with at_work(setting, name="worker") as worker:
        sender = Sender(setting, rows, speed=SPEED, value=value_of).start()
        if killed is not None:
            sender.await_share(killed)
            worker.kill_all()
            worker.start()
        sender.finish()
        beat(setting, rows)
        expected = replayed(setting, setting.folder / "raw.jsonl")
        await_all(setting, content(expected))
    return expected
