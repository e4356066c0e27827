"""Examples: `inorder audit` on foreign files, its output, and refused input."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from benchmarks.workloads.machines import MS, RESTARTS, S, plant
from cli.mapping_options import MappingOptions
from cli.taken import take
from inorder.contract import MAX_INT64, PRESETS, Preset
from recordings.audit.document import make_document
from recordings.audit.findings import Asked, audit
from recordings.audit.row import ONE_ORDER, AuditRow
from tests.cli.invoking import Answer, inorder, json_lines, text_file
from tests.seeds import seeds_of_today
from topology.config import parse

ASKED = Asked(60 * S, (0, 1 * S, 5 * S, 30 * S), ONE_ORDER, arrives=True)
MAPPED = ("--source", "device", "--seq", "n", "--ts", "time", "--ts-unit", "ms")


def in_ms(rows: list[AuditRow]) -> list[AuditRow]:
    """Return the rows as a file in milliseconds stores them."""
    return [
        row._replace(
            ts_ns=row.ts_ns // MS * MS,
            arrival_ns=None if row.arrival_ns is None else row.arrival_ns // MS * MS,
        )
        for row in rows
    ]


@pytest.fixture
def telemetry(tmp_path: Path) -> Path:
    path = tmp_path / "telemetry.csv"
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["device", "n", "time", "received", "force"])
        for row in plant(1):
            arrived = (row.arrival_ns or 0) // MS
            table.writerow([row.source, row.seq, row.ts_ns // MS, arrived, 12.5])
    return path


def test_foreign_file_is_audited(telemetry: Path) -> None:
    answer = inorder("audit", telemetry).well(
        "read by source device, seq n, ts time (ms), arrival received", "press-7  fast by 41 s"
    )
    assert all(len(line) <= 100 for line in answer.out.splitlines() if str(telemetry) not in line)


def test_arrival_unit_is_checked(tmp_path: Path) -> None:
    rows = [f"a,{1767225600 + n},{1767225600123 + 1000 * n},{n}" for n in range(3)]
    path = text_file(tmp_path / "telemetry.csv", "\n".join(["device,time,arrival,n", *rows]))
    answer = inorder("audit", path)
    assert "arrival looks like an arrival time, but is not used: in ms, times in s" in answer.out


def test_json_matches_audit_of_rows(telemetry: Path) -> None:
    said = inorder("audit", telemetry, "--json").last
    assert said == json.loads(json.dumps(make_document(audit(in_ms(plant(1)), ASKED))))


def test_gzipped_json_is_audited(telemetry: Path, tmp_path: Path) -> None:
    with telemetry.open() as file:
        rows = list(csv.DictReader(file))
    path = tmp_path / "telemetry.jsonl.gz"
    lines = [
        json.dumps({"a": {"device": row["device"]}, "n": int(row["n"]), "time": int(row["time"])})
        for row in rows
    ]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    asked_for = ("audit", path, "--source", "payload.a.device", *MAPPED[2:], "--json")
    said = inorder(*asked_for, "--lateness", "10s").last
    unseen = [row._replace(arrival_ns=None) for row in in_ms(plant(1))]
    asked = replace(ASKED, bounds_ns=(10 * S,), arrives=False)
    assert said == json.loads(json.dumps(make_document(audit(unseen, asked))))
    assert inorder(*asked_for, "--last", "100").last["records"] == 100


def test_given_unit_overrides_guess(telemetry: Path) -> None:
    in_ns = inorder("audit", telemetry, *MAPPED[:-1], "ns", "--json")
    assert in_ns.last["windows"]["all"] == 1


def test_parquet_timestamps_are_read(telemetry: Path, tmp_path: Path) -> None:
    with telemetry.open() as file:
        rows = list(csv.DictReader(file))
    times = pa.array([int(row["time"]) for row in rows], pa.timestamp("ms", "UTC"))
    columns = {"device": [row["device"] for row in rows], "n": [int(row["n"]) for row in rows]}
    path = tmp_path / "telemetry.parquet"
    parquet.write_table(pa.table({**columns, "time": times}), path)
    answer = inorder("audit", path)
    assert "read by source device, seq n, ts time\n" in answer.out, answer.err
    lines = "".join(f"{row['device']},{row['n']},{row['time']}\n" for row in rows).encode()
    by_lines = inorder("audit", "-", "--json", stdin=b"device,n,time\n" + lines).well()
    by_table = inorder("audit", path, "--json")
    assert by_table.last == by_lines.last


def test_page_is_self_contained(telemetry: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    inorder("audit", telemetry, "--html", page).well()
    text = page.read_text()
    assert text.count("<svg") == 3
    assert "fast by 41 s" in text
    assert not re.findall(r"(?:src|href|url\()[^>]*", text)
    assert "<script" not in text


def test_foreign_names_are_escaped(tmp_path: Path) -> None:
    path, page = tmp_path / "names.jsonl", tmp_path / "report.html"
    name = "<script>alert(1)</script>\u202e[red]x"
    lines = [{"source": name, "seq": n, "ts": 1_700_000_000_000 + n} for n in range(30)]
    path.write_text("\n".join(map(json.dumps, lines)))
    answer = inorder("audit", path, "--html", page).well()
    assert "<script" not in page.read_text()
    assert "\u202e" not in answer.out + page.read_text()


def test_similar_names_stay_distinct(tmp_path: Path) -> None:
    path = tmp_path / "names.jsonl"
    names = ["Förderband-Halle-31", "Förderband-Halle-32", "W" * 100 + "-33"]
    times = [(1_700_000_000_000 + n * 1_000, n) for n in range(30)]
    rows = [{"device": name, "n": n, "time": time} for time, n in times for name in names]
    path.write_text("\n".join(map(json.dumps, rows)))
    answer = inorder("audit", path, *MAPPED).well()
    table = answer.out.partition("Machines")[2].partition("Disorder")[0]
    cells = "".join(re.findall(r"^ (\S+)", table, re.MULTILINE))
    assert [name for name in names[:2] if name not in cells] == []
    assert cells.endswith("-33")
    assert table.count("W") < 50


FALLS_NS = (0, 0, 3 * S, 0, 700 * MS, 40 * S, 0)
"""Falls of a gateway's timestamps, one for each number in turn."""


def delay_one_machine(rows: list[AuditRow], first_min: int, last_min: int) -> list[AuditRow]:
    """Return the rows, where those of one machine between two times arrive at the later one."""
    begin_ns = rows[0].ts_ns
    first_ns, last_ns = begin_ns + first_min * 60 * S, begin_ns + last_min * 60 * S
    held = [
        row._replace(arrival_ns=last_ns)
        if row.source == "robot-0" and first_ns <= row.ts_ns and (row.arrival_ns or 0) < last_ns
        else row
        for row in rows
    ]
    return sorted(held, key=lambda row: row.arrival_ns or 0)


WORLDS: dict[str, Callable[[int], list[AuditRow]]] = {
    "plant": plant,
    "loss": lambda seed: plant(seed, lost=0.2, copied=0.2),
    "in order": lambda seed: plant(seed, late=0.0, copied=0.0),
    "a clock that jumps": lambda seed: plant(seed, fast_after=0.5),
    "quick restarts": lambda seed: [
        row._replace(seq=(row.seq or 0) % 100) if row.source == RESTARTS else row
        for row in plant(seed, 6_000, lost=0.0, late=0.0)
    ],
    "a gateway": lambda seed: [
        row._replace(ts_ns=row.ts_ns - FALLS_NS[(row.seq or 0) % len(FALLS_NS)])
        if row.source == "robot-0"
        else row
        for row in plant(seed)
    ],
    "machines without numbers": lambda seed: [
        row._replace(seq=None) if row.source == "robot-0" else row
        for row in plant(seed, copied=0.0)
    ],
    "an outage": lambda seed: delay_one_machine(
        plant(seed, records=7_200, period_ns=5 * S), 20, 60
    ),
    "numbers that wrap": lambda seed: [
        row._replace(seq=(row.seq or 0) % 256)
        for row in plant(seed, 6_000)
        if row.source != RESTARTS
    ],
}


def unlike(found: Mapping[int, int], truth: Mapping[int, int]) -> int:
    return sum(found.get(at, 0) != truth.get(at, 0) for at in found.keys() | truth.keys())


def figures_of_replay(run: Answer, rows: list[AuditRow], length_ns: int) -> dict[str, Any]:
    """Return the figures of a replay in the form of an audit.

    A window is wrong if it differs from the count by corrected timestamps. Late events outside of
    windows count by their own timestamps.
    """
    lines = run.lines
    events = [line for line in lines if line["kind"] == "event"]
    windows = [line for line in lines if line["kind"] == "window"]
    truth = Counter(event["ref_time"] // length_ns for event in events)
    emitted = {(event["source"], event["epoch"], event["seq"]) for event in events}
    for late in (line for line in lines if line["kind"] == "late"):
        if (late["source"], late["epoch"], late["seq"]) not in emitted:
            truth[rows[late["line"] - 1].ts_ns // length_ns] += 1
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for window in windows:
        number = window["start"] // length_ns
        first.setdefault(number, window["values"]["n"])
        last[number] = 0 if window["op"] == "retract" else window["values"]["n"]
    return {
        "wait_ms": round(run.summary["wait_ms"]["mean"], 3),
        "wrong_at_first": unlike(first, truth),
        "wrong_at_last": unlike(last, truth),
    }


@pytest.mark.parametrize("seed", seeds_of_today(1))
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("arrives", [True, False])
def test_replay_agrees_with_the_audit(tmp_path: Path, world: str, seed: int, arrives: bool) -> None:
    topology, path = tmp_path / "t.yaml", tmp_path / "telemetry.jsonl"
    rows = WORLDS[world](seed)
    with path.open("w") as file:
        for row in rows:
            value = {"device": row.source, "n": row.seq, "time": row.ts_ns // MS}
            received = {"received": (row.arrival_ns or 0) // MS} if arrives else {}
            file.write(json.dumps(value | received) + "\n")
    said = inorder("audit", path, "--out", topology, "--json").last
    run = inorder("replay", "--topology", topology, "--json", path).well()
    expected = {key: said["inorder"][key] for key in ("wrong_at_first", "wrong_at_last")}
    wait_ms = round(said["inorder"]["wait_ms"]["mean"], 3)
    assert figures_of_replay(run, rows, 60 * S) == expected | {"wait_ms": wait_ms}
    assert run.summary["dead"] == 0
    assert sum(line["kind"] == "duplicate" for line in run.lines) == said["copies"]


def test_timestamp_falls_are_covered(tmp_path: Path) -> None:
    path, topology = tmp_path / "gateway.jsonl", tmp_path / "t.yaml"
    with path.open("w") as file:
        for n in range(2_000):
            at = 1_700_000_000_000 + 100 * n
            fall = 4_000 if n % 50 == 20 else 30_000 if n == 1_500 else 0
            line = {"node": "gate", "n": n, "time": at - fall, "received": at + 20}
            file.write(json.dumps(line) + "\n")
    answer = inorder("audit", path, "--out", topology)
    assert "41 are set back" in answer.out
    assert "by p99 29.9, max 29.9 s; most of them from gate" in answer.out
    assert "clock.max_set_back: 5s  99.9 % of timestamps fall by no more than 3.9 s" in answer.out
    assert parse(topology.read_text()).streams["default"].clock.max_set_back_ns == 5 * S
    said = inorder("audit", path, "--json").last
    machine = said["by_machine"]["gate"]
    assert (machine["set_backs"], machine["verdict"]) == (41, "fine")
    assert machine["set_back_ms"] == {"p99": 29_900, "max": 29_900}
    assert said["inorder"]["wrong_at_last"] == 0
    run = inorder("replay", "--topology", topology, "--json", path)
    assert run.summary["late_by_cause"] == {"set_back": 1}


@pytest.mark.parametrize("machines", [2, 3, 5, 10])
def test_mixed_numbering_is_detected(tmp_path: Path, machines: int) -> None:
    path, topology = tmp_path / "mixed.csv", tmp_path / "t.yaml"
    rows = [
        f"m{machine},{n if machine else ''},{1_700_000_000_000 + 1_000 * n + machine}"
        for n in range(200)
        if n != 100
        for machine in range(machines)
    ]
    path.write_text("\n".join(["node,seq,time", *rows, f"m1,,{1_700_000_300_000}"]))
    answer = inorder("audit", path, "--out", topology)
    assert "reorder.without_seq: by_time  machines without numbers: 1" in answer.out
    assert parse(topology.read_text()).streams["default"].reorder.is_mixed
    said = inorder("audit", path, "--json").last
    assert (said["unreadable"], list(said["unread"])) == (1, ["seq_mixed"])
    assert (said["missing"], said["copies"]) == (machines - 1, 0)
    assert said["by_machine"]["m0"]["missing"] is None
    assert said["by_machine"]["m1"]["missing"] == 1
    run = inorder("replay", "--topology", topology, "--json", path)
    assert (run.summary["event"], run.summary["dead"]) == (len(rows), 1)


@pytest.mark.parametrize("joins", [1, 29])
@pytest.mark.parametrize("plain", [0, 90])
def test_numbers_after_join_are_kept(tmp_path: Path, joins: int, plain: int) -> None:
    at_s = iter(range(1_700_000_000, 1_700_001_000))
    rows = [f"lora,,{next(at_s)}" for _ in range(joins)]
    rows += [f"lora,{n},{next(at_s)}" for n in range(30)]
    rows += [f"plain,,{next(at_s)}" for _ in range(plain)]
    path = text_file(tmp_path / "joins.csv", "\n".join(["node,seq,time", *rows]))
    asked = (path, "--source", "node", "--seq", "seq", "--ts", "time")
    for command in ("audit", "init"):
        topology = tmp_path / f"{command}.yaml"
        answer = inorder(command, *asked, "--out", topology)
        run = inorder("replay", "--topology", topology, "--values", "--json", path).well()
        assert [(each["source"], each["seq"]) for each in run.of("event")] == [
            ("lora", n) for n in range(30)
        ]
        assert run.summary["dead"] == joins + plain
        text = answer.out + topology.read_text()
        assert (f"has a number: {plain}" in text) == (plain > 0)
    said = inorder("audit", *asked, "--json").last
    assert (said["missing"], said["unreadable"], said["records"]) == (0, joins, len(rows))
    assert said["unread"]["seq_mixed"]["first"] == 2


def test_wrapping_sets_seq_bits(tmp_path: Path) -> None:
    path, topology = tmp_path / "spb.csv", tmp_path / "t.yaml"
    rows = [f"a,{n % 256},{1_700_000_000_000 + 10 * n}" for n in range(1_000)]
    path.write_text("\n".join(["node,seq,time", *rows]))
    answer = inorder("audit", path, "--out", topology)
    assert "reorder.seq_bits: 8  numbers wrap at 2^8" in answer.out
    assert parse(topology.read_text()).streams["default"].reorder.seq_bits == 8
    run = inorder("replay", "--topology", topology, "--show", "window", "--json", path)
    assert [line["values"] for line in run.lines] == [{"n": 1_000}]
    assert run.summary["duplicate"] == run.summary["late"] == 0
    wide = inorder("audit", path, "--seq-bits", "63", "--json").last
    assert (wide["seq_bits"], wide["by_machine"]["a"]["restarts"]) == (None, 3)
    nothing = inorder("audit", path, "--seq-bits", "63", "--out", tmp_path / "wide.yaml")
    assert "reorder.seq_bits" not in nothing.out
    assert "seq_bits" not in (tmp_path / "wide.yaml").read_text()
    given = inorder("audit", path, "--seq-bits", "8", "--json")
    assert given.last == inorder("audit", path, "--json").last


def test_number_range_is_proposed(tmp_path: Path) -> None:
    begin_ms = 1_700_000_000_000
    numbers = [*range(65_400, 65_536), *range(1, 100)]
    rows = [f"a,{number},{begin_ms + 100 * at}" for at, number in enumerate(numbers)]
    path = text_file(tmp_path / "t.csv", "\n".join(["device,n,time", *rows, ""]))
    said = "after 65535 numbers go on with 1"
    out = tmp_path / "t.yaml"
    inorder("audit", path, "--out", out).well("reorder.seq_range: 1 to 65535", said)
    proposed = inorder("init", path).well().out
    for text in (out.read_text(), proposed):
        assert str(parse(text).streams["default"].reorder.seq_range) == "1 to 65535"
    events = inorder("replay", "--json", "--values", "--topology", out, path).well().summary
    assert (events["event"], events["gaps"]) == (len(rows), 0)
    mapped = ("--json", "--source", "device", "--seq", "n", "--ts", "time", "--ts-unit", "ms")
    alone = inorder("replay", *mapped, "--seq-range", "1 to 65535", path).well().summary
    assert (alone["event"], alone["gaps"]) == (len(rows), 0)
    for refused in (("--topology", out), mapped[:3]):
        said = inorder("replay", *refused, "--seq-range", "1 to 9", path).err
        assert "--seq-range is for" in said
    given = inorder("audit", path, "--json", "--seq-range", "0 to 65535").last
    assert (given["missing"], given["seq_range"], given["seq_bits"]) == (1, "0 to 65535", 16)
    for options, error in (
        (["9"], "--seq-range 9: is not a range of numbers; write it like 1 to 65535"),
        (["1 to 9", "--seq-bits", "8"], "--seq-bits too; leave one out"),
    ):
        assert error in inorder("audit", path, "--seq-range", *options).err


def test_partly_wrapping_fleet_warns(tmp_path: Path) -> None:
    path, topology = tmp_path / "mixed.csv", tmp_path / "t.yaml"
    rows = [
        f"{name},{n % 256 if name == 'a' else n},{1_700_000_000_000 + 10 * n}"
        for n in range(1_000)
        for name in "ab"
    ]
    path.write_text("\n".join(["node,seq,time", *rows]))
    answer = inorder("audit", path, "--out", topology)
    said = " ".join(answer.out.split())
    assert "a: numbers wrap, and those of others do not; give these machines a" in said
    assert "seq_bits" not in topology.read_text()


@pytest.mark.parametrize(
    ("options", "code", "word"),
    [
        (("--seq-bits", "7"), 2, "--seq-bits"),
        (("--source", "device", "--ts", "time", "--seq-bits", "8"), 0, ""),
        (("--source", "dvice"), 3, "no column `dvice`"),
        (("--source", "device", "--window", "5"), 2, "--window"),
        (("--source", "device", "--window", "0s"), 2, "--window"),
        (("--source", "device", "--lateness", "soon"), 2, "--lateness"),
        (("--since", "1h"), 2, "--since"),
        (("--topic", "t"), 2, "give a FILE"),
        (("--values",), 2, "--values"),
        (("--html", "absent/report.html"), 2, "there is no folder absent"),
        (("--out", "/dev/null"), 2, "exists already"),
        (("--lateness", "0", "--json"), 0, ""),
        (("--format", "bytes"), 2, "--format"),
        (("--source", "device", "--stream", "force"), 2, "--stream"),
        (("--ts", "time"), 0, ""),
        (("--source", "device", "--ts", "force"), 0, ""),
        (("--source", "device", "--ts", "time", "--ts-unit", "s"), 4, "ts_huge"),
    ],
)
def test_only_wrong_options_are_refused(
    telemetry: Path, options: tuple[str, ...], code: int, word: str
) -> None:
    answer = inorder("audit", telemetry, *options)
    assert (answer.code, word in answer.err) == (code, True), answer.err
    assert "Traceback" not in answer.err


def test_unreadable_record_is_shown(telemetry: Path) -> None:
    answer = inorder("audit", telemetry, "--source", "device", "--seq", "force", "--ts", "time")
    answer.refused("not one record can be read", "seq_not_integer", code=4)
    assert answer.err.count("  record ") == 3


def test_wrong_format_is_shown(tmp_path: Path) -> None:
    path = text_file(tmp_path / "notes.jsonl", "press-7 went off\n" * 40)
    inorder("audit", path, *MAPPED).refused("press-7 went off", "value_undecodable", code=4)


def test_missing_source_lists_fields(tmp_path: Path) -> None:
    path = text_file(tmp_path / "values.jsonl", '{"x": 1.5, "y": 2.5}\n' * 30)
    inorder("audit", path).refused("--source is missing", "x, y")


@pytest.mark.parametrize("seqs", [(0, 1), (1, 0), (None, None)])
def test_distant_stamps_are_audited(tmp_path: Path, seqs: tuple[int | None, ...]) -> None:
    """Their distance exceeds 64 bits."""
    rows = [
        {"source": "s", "seq": seq, "ts": ts_ns, "arrival": arrival_ns}
        for seq, ts_ns, arrival_ns in zip(seqs, (MAX_INT64, -5), (0, 4_102 * 10**15), strict=True)
    ]
    path = json_lines(tmp_path / "far.jsonl", rows)
    named = ("--source", "source", "--seq", "seq", "--ts", "ts")
    for more in ((), ("--arrival", "arrival")):
        answer = inorder("audit", path, *named, *more, "--json")
        assert (answer.code, json.loads(answer.out)["records"]) == (0, 2)
    assert inorder("init", path).code == 0


def test_own_names_need_no_guess(tmp_path: Path) -> None:
    """Numbers begin again in the second epoch, and 50 to 59 are missing in both."""
    rows = [
        {"source": "a", "epoch": epoch, "seq": seq, "ts": (60 * epoch + seq) * MS}
        for epoch in (0, 1)
        for seq in (*range(50), 60)
    ]
    answer = inorder("audit", json_lines(tmp_path / "own.jsonl", rows), "--json")
    found = json.loads(answer.out)
    assert [found[name] for name in ("records", "unreadable", "machines")] == [102, 0, 1]
    assert (found["missing"], found["copies"]) == (20, 0)
    assert found["by_machine"]["a"]["longest_silence_ms"] == 11, "`ts` is in ns"


def test_own_payload_is_no_number(tmp_path: Path) -> None:
    rows = [{"source": "a", "ts": at * MS, "payload": {"n": at}} for at in range(100)]
    found = json.loads(inorder("audit", json_lines(tmp_path / "own.jsonl", rows), "--json").out)
    assert (found["records"], found["missing"]) == (100, None)


@pytest.mark.parametrize("name", ["mixed.jsonl", "mixed.csv"])
def test_own_source_may_lack_numbers(tmp_path: Path, name: str) -> None:
    """Only `b` has numbers."""
    rows = [
        {"source": "ab"[at % 2], "seq": at if at % 2 else None, "ts": at * MS} for at in range(100)
    ]
    path = tmp_path / name
    if path.suffix == ".csv":
        lines = [
            f"{row['source']},{'' if row['seq'] is None else row['seq']},{row['ts']}"
            for row in rows
        ]
        text_file(path, "\n".join(["source,seq,ts", *lines]))
    else:
        json_lines(path, rows)
    machines = json.loads(inorder("audit", path, "--json").out)["by_machine"]
    assert (machines["a"]["missing"], machines["b"]["missing"]) == (None, 49)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            lambda at: {"source": "x", "device": "abc"[at % 3], "n": at // 3},
            "source device, seq n,",
        ),
        (lambda at: {"source": {"id": "ab"[at % 2]}, "seq": at // 2}, "source payload.source.id,"),
        (lambda at: {"source": "a", "seq": f"x{at}"}, "source source, ts"),
    ],
    ids=["more names", "a source with parts", "numbers with letters"],
)
def test_own_names_alone_are_no_form(
    tmp_path: Path, row: Callable[[int], dict[str, object]], said: str
) -> None:
    rows = [row(at) | {"ts": 1_795_993_202 * S + at * MS} for at in range(99)]
    inorder("audit", json_lines(tmp_path / "foreign.jsonl", rows)).well(f"read by {said}")


def test_few_dates_leave_the_unit(tmp_path: Path) -> None:
    dates = [{"source": "a", "seq": at, "ts": f"2026-11-29T23:00:0{at}Z"} for at in range(2)]
    begin_ns = 1_795_993_202 * S
    rows = [{"source": "a", "seq": 2 + at, "ts": begin_ns + at * MS} for at in range(300)]
    path = json_lines(tmp_path / "mixed.jsonl", [*dates, *rows])
    found = json.loads(inorder("audit", path, "--json").out)
    assert (found["records"], found["unreadable"], found["missing"]) == (302, 0, 0)
    assert found["out_of_time"] == 0


@pytest.mark.parametrize("preset", PRESETS)
def test_own_headers_need_no_guess(preset: Preset) -> None:
    """The payload has another number, source and time."""
    names = PRESETS[preset]
    headers = [{names.source: "a", names.seq: str(at), names.ts: str(at * MS)} for at in range(100)]
    payloads = [{"device": "b", "n": at, "time": 1_795_993_202_000 + at} for at in range(100)]
    rows = [
        {"header": header, "payload": payload}
        for header, payload in zip(headers, payloads, strict=True)
    ]
    taken = take(rows, MappingOptions(), on_file=False)
    assert taken.texts == {
        "source": f"header.{names.source}",
        "seq": f"header.{names.seq}",
        "ts": f"header.{names.ts}",
    }
    assert taken.fields.ts_unit == "ns"
