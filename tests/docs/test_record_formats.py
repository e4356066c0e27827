"""Examples: docs/reference/record_formats.md names the contents of the topics.

Its two readers, compiled and run as they stand, find a worker's events and current results.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from agents.stage.outlet import make_dead_letter
from benchmarks.workloads import crowd
from cli.local.kafka import jars
from cli.local.process import Process
from inorder.contract import (
    PRESETS,
    RETRACTION_FLAG,
    RETRACTION_INTEGERS,
    RETRACTION_TEXTS,
    STAMPED_NAMES,
)
from inorder.resending import Request
from tests import ROOT
from tests.end_to_end.records import Headers, Read, Sender, contract, read_all, send
from tests.end_to_end.setting import Setting, settle
from tests.end_to_end.waiting import Emitted
from tests.end_to_end.worker import Worker, running
from tests.kit.programs import ended
from tests.services import SharedKafka, UniqueName, require
from tests.sinks.told import QUERIES, SPEED, beat, value_of
from topology.base.outcome import Gap, Malformed
from topology.base.result import EMIT, JoinResult, MatchResult, Member, Partner, WindowResult
from topology.base.sample import Declared, Sample
from topology.records.clock_words import read_report
from topology.records.json_lines import make_report_line, make_result_line

PAGE = (ROOT / "docs/reference/record_formats.md").read_text(encoding="utf-8")
CODE = re.compile(r"^```(?P<kind>\w+)\n(?P<text>.*?)^```", re.M | re.S)
NAME = re.compile(r"`(\w+)`")
EVENTS = 1_000
TABLE = "window: session 25ms, key: payload.source, aggregate: {n: count()}"

READ_TIMEOUT_S = 120.0
SIDE = ("gaps", "late", "dead")
RESULTS = ("windows", "matches", "table")
PLACES = ("both", "`events.sequenced`", "watermarks", "`events.late`")
KEYS = {"none": None, "the stream": b"default"}

Shown = dict[str, Any]
Records = dict[str, list[Read]]
Current = dict[str, Shown | None]


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    """Return the cells of the first table in a section."""
    table = re.search(r"(?:^\|.*\n)+", section(title), re.M)
    assert table is not None
    return cells_of(table[0])


def cells_of(table: str) -> list[list[str]]:
    lines = table.splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def code(kind: str) -> str:
    (text,) = (block["text"] for block in CODE.finditer(PAGE) if block["kind"] == kind)
    return text


def shown(title: str) -> list[Shown]:
    """Return the objects in the JSON blocks of a section."""
    found, decoder = list[Shown](), json.JSONDecoder()
    for block in CODE.finditer(section(title)):
        text = block["text"]
        while text := text.strip():
            value, end = decoder.raw_decode(text)
            found.append(value)
            text = text[end:]
    return found


STAMPS = {
    NAME.findall(cell)[0]: on for cell, on, _ in rows("`events.sequenced` and `events.ordered`")
}
"""Topics that contain each header, as the page states."""


def test_input_headers_are_listed() -> None:
    named = [tuple(NAME.findall(cell)[0] for cell in row[:2]) for row in rows("Inputs")]
    presets = zip(PRESETS["plain"], PRESETS["cloudevents"], strict=True)
    assert sorted(named) == sorted(presets)


def test_stage_headers_are_listed() -> None:
    assert sorted(STAMPS) == sorted(STAMPED_NAMES)


def test_retract_headers_are_listed() -> None:
    said = PAGE.partition("Its headers are")[2].partition(".")[0]
    assert sorted(NAME.findall(said)) == sorted(
        [*RETRACTION_TEXTS, *RETRACTION_INTEGERS, RETRACTION_FLAG]
    )


def test_json_keys_are_shown() -> None:
    head = (3, "default", "q", "7d0e", EMIT, 0, True, "confirmed", 1, 2)
    member, partner = Member("a", "s", 0, 0, 1), Partner("a", "default", "s", 0, 0, 1)
    window, match, join = shown("Results")
    assert [*window] == [*make_result_line(WindowResult(*head, {}))]
    made = make_result_line(MatchResult(*head, {}, members=[member]))
    assert [*match] == [*made]
    assert [*match["events"][0]] == [*made["events"][0]]
    made = make_result_line(JoinResult(*head, {}, partners=[partner]))
    assert [*join] == [*made]
    assert [*join["events"][0]] == [*made["events"][0]]
    (gap,), (dead,) = shown("`events.gaps`"), shown("`events.dead`")
    assert [*gap] == [
        *make_report_line(Gap(3, "default", "s", 0, 1, 2, "timeout", 1), replayed=False)
    ]
    assert [*dead] == [*make_dead_letter(Malformed(3, 7, "seq_missing", "…"), ("events.raw", 3))]
    (request,) = shown("Requests to send again")
    assert [*request] == [*Request._fields]
    sync, declared = (read_report("s", each, 1, 1) for each in shown("`clock.offsets`"))
    assert isinstance(sync, Sample)
    assert isinstance(declared, Declared)
    assert (sync.server, sync.mono_ns) == ("sync-1", 5)


STRANGE: list[Headers] = [
    contract("oven-2", 0, epoch=1),
    contract("oven-2", 2, epoch=1),
    contract("oven-2", 1, epoch=0),
    [("sourceId", b"oven-2"), ("seqNum", b"12a")],
]
"""A gap, an event of an epoch that is over, and a record that cannot be read."""


def strange(setting: Setting) -> None:
    send(setting, [("oven-2", b"{}", headers) for headers in STRANGE])


def written(setting: Setting, folder: Path) -> Records:
    """Let a worker order the events; return the records of each topic."""
    events = crowd(EVENTS, seed=5).rows
    wanted = len({(row.source, row.seq) for row in events}) + len(STRANGE)
    topics = setting.topology.topics
    worker = Worker("worker", setting.path, setting.bootstrap, folder)
    with running(worker):
        worker.wait_ready()
        strange(setting)
        Sender(setting, events, speed=SPEED, value=value_of).start().finish()
        beat(setting, events)
        emitted = Emitted(setting)
        emitted.wait_for(wanted)
        emitted.close()
        assert worker.stop() == 0, worker.log
    (table,) = setting.topology.result_tables.values()
    places = {name: getattr(topics, name) for name in ("sequenced", *SIDE, *RESULTS[:-1])}
    places |= {"ordered": setting.ordered, "table": table}
    return {name: read_all(setting.bootstrap, topic) for name, topic in places.items()}


def headers_of(records: list[Read]) -> set[str]:
    return {name for record in records for name, _ in record.headers}


def holds_what_the_page_says(found: Records) -> None:
    inputs = set(PRESETS["plain"])
    on = {place: {name for name in STAMPS if STAMPS[name].startswith(place)} for place in PLACES}
    both, sequenced, watermarks, late = (on[place] for place in PLACES)
    assert both - {"late"} | sequenced <= headers_of(found["sequenced"])
    assert headers_of(found["sequenced"]) <= inputs | both | sequenced
    assert both | watermarks - {"errAll"} <= headers_of(found["ordered"])
    assert headers_of(found["ordered"]) <= inputs | both | watermarks
    assert late <= headers_of(found["late"]) <= inputs | both | sequenced | late
    for name in ("gaps", "dead"):
        assert headers_of(found[name]) == set()
        assert b"oven-2" in {record.key for record in found[name]}
    assert headers_of(found["windows"]) == set()
    assert headers_of(found["matches"]) == {"kind"}
    retracted = [record for record in found["table"] if record.value is None]
    assert headers_of(retracted) == {*RETRACTION_TEXTS, *RETRACTION_INTEGERS, RETRACTION_FLAG}
    assert headers_of([each for each in found["table"] if each not in retracted]) == set()
    keys = {row[0].strip("`"): KEYS[row[2]] for row in kinds() if row[2] in KEYS}
    for record in (*found["sequenced"], *found["ordered"]):
        if (kind := record.header("kind")) in keys:
            assert (record.key, record.value) == (keys[kind], None)


def kinds() -> list[list[str]]:
    """Return the rows of the table of control records."""
    return cells_of(PAGE.partition("| kind | topic |")[2].partition("\n\n")[0])


def ordered_in(records: list[Read]) -> list[Read]:
    return [record for record in records if not record.is_control]


def events_of(records: list[Read]) -> list[list[str]]:
    """Return the fields that the readers print, sorted, since partitions are read in any order."""
    return sorted(
        [
            *(str(part) for part in record.name),
            record.header("refTs") or "",
            record.header("late") or "in_order",
        ]
        for record in ordered_in(records)
    )


def current_of(records: list[Read]) -> Current:
    """Return the result of each id by its newest record, None if it is retracted."""
    found: Current = {}
    for record in ordered_in(records):
        line = json.loads(record.value) if record.value is not None else {"op": "retract"}
        found[(record.key or b"").decode()] = None if line["op"] == "retract" else line
    return found


def read_by(process: Process, lines: int) -> tuple[list[list[str]], Current]:
    """Run a reader until it has printed `lines` lines; return its events and results."""
    process.start()
    try:
        process.wait_until(lambda: len(of_reader(process.log)) >= lines, READ_TIMEOUT_S)
    finally:
        process.kill()
    found = of_reader(process.log)
    events = sorted(line.split()[1:] for line in found if line.startswith("event "))
    results = (line.split(" ", 2)[1:] for line in found if line.startswith("result "))
    return events, {id_: json.loads(text) for id_, text in results}


def of_reader(log: Path) -> list[str]:
    """Return the complete event and result lines in a reader's log."""
    lines = log.read_text(encoding="utf-8").rpartition("\n")[0].splitlines()
    return [line for line in lines if line.startswith(("event ", "result "))]


def compiled(source: Path) -> list[str]:
    """Compile a Java program, and return the command that runs it."""
    path = jars.classpath()
    words = ["javac", "-Xlint:all", "-Werror", "-proc:none", "-cp", path, "-d", str(source.parent)]
    done = ended(*words, source)
    assert done.returncode == 0, done.stderr
    return ["java", "-cp", f"{source.parent}:{path}", source.stem]


@pytest.mark.kafka
@pytest.mark.slow
def test_readers_find_all_records(
    kafka: SharedKafka, tmp_path: Path, unique_name: UniqueName
) -> None:
    require(jars.missing() or (None if shutil.which("javac") else "javac not found: make services"))
    table = f"  burst-{unique_name('t')[-8:]}: {{upsert: true, {TABLE}}}\n"
    setting = settle(
        kafka.bootstrap,
        tmp_path,
        stages="reorder, merge, window+pattern",
        stream="merge: {new_source_allowance: 0s}",
        more=QUERIES.replace("queries:\n", f"queries:\n{table}"),
    )
    found = written(setting, tmp_path)
    holds_what_the_page_says(found)
    results = [record for name in RESULTS for record in found[name]]
    events, current = events_of(found["ordered"]), current_of(results)
    assert None in current.values()
    assert any(record.is_control for record in results)
    lines = len(events) + len(ordered_in(results))
    topics = [setting.ordered, setting.topology.topics.windows, setting.topology.topics.matches]
    topics += setting.topology.result_tables.values()
    (tmp_path / "reader.py").write_text(code("python"))
    (tmp_path / "Reader.java").write_text(code("java"))
    programs = {
        "python": [sys.executable, str(tmp_path / "reader.py")],
        "java": compiled(tmp_path / "Reader.java"),
    }
    for name, program in programs.items():
        words = [*program, kafka.bootstrap, unique_name(name), *topics]
        assert read_by(Process(name, words, tmp_path), lines) == (events, current), name
