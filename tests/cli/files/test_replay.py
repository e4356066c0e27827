"""Examples: the contract of `inorder replay`: lines, order, summary, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.program import PROGRAM
from tests.cli.invoking import Answer, inorder, json_lines, replay_of, text_file
from tests.kit.programs import ended

RECORDED = [
    {"source": "a", "seq": 0, "ts": 100, "arrival": 1000, "type": "A", "payload": {"x": 1}},
    {"source": "a", "seq": 2, "ts": 120, "arrival": 1010},
    {"source": "a", "seq": 3, "ts": 130, "arrival": 1200},
    {"source": "a", "seq": 1, "ts": 110, "arrival": 1300},
    {"source": "a", "seq": 3, "ts": 130, "arrival": 1310},
    {"source": "a", "seq": -1, "arrival": 1320},
    {"clock": "a", "t1": 1, "t2": 2, "t3": 3, "t4": 4},
    {"source": "a", "seq": 5, "ts": 150, "arrival": 1330},
]
"""A recording where number 1 is awaited until 1110 and comes too late, and 4 never comes."""

LAST_NS = 4_102_444_800 * 10**9
COUNTS = ["in", "event", "late", "duplicate", "dead", "held", "gaps"]


def topology_text(late: str = "pass") -> str:
    reorder = f"{{rule: fixed, max_wait: 100ns, late: {late}}}"
    stream = f"{{input: raw, reorder: {reorder}, clock: {{unsynced: trust}}}}"
    return f"streams: {{default: {stream}}}\n"


def topology(folder: Path, late: str = "pass") -> Path:
    return text_file(folder / f"{late}.yaml", topology_text(late))


def recording(folder: Path) -> Path:
    return json_lines(folder / "recorded.jsonl", RECORDED)


def replayed(folder: Path, *options: str, late: str = "pass") -> Answer:
    return inorder("replay", "--topology", topology(folder, late), *options, recording(folder))


def rows_of(answer: Answer) -> list[tuple[Any, ...]]:
    """Return the kind and the relevant fields of each line."""
    other = ("seq", "reason", "line", "at")
    shapes = {"event": ("seq", "late", "at"), "gap": ("first", "last", "reason", "at")}
    return [
        (line["kind"], *(line[key] for key in shapes.get(line["kind"], other)))
        for line in answer.lines
    ]


BEFORE_THE_LATE_ONE: list[tuple[Any, ...]] = [
    ("event", 0, False, 1000),
    ("gap", 1, 1, "timeout", 1110),
    ("event", 2, False, 1110),
    ("event", 3, False, 1200),
]
AFTER_IT: list[tuple[Any, ...]] = [
    ("duplicate", 3, "copy", 5, 1310),
    ("dead", None, "seq_negative", 6, 1320),
]
AT_THE_END: list[tuple[Any, ...]] = [("gap", 4, 4, "end", 1330), ("event", 5, False, 1330)]


@pytest.mark.parametrize(
    ("late", "line"),
    [
        ("pass", ("event", 1, True, 1300)),
        ("drop", ("late", 1, "gap", 4, 1300)),
        ("side", ("late", 1, "gap", 4, 1300)),
    ],
)
def test_lines_follow_event_order(tmp_path: Path, late: str, line: tuple[Any, ...]) -> None:
    answer = replayed(tmp_path, late=late)
    assert answer.code == 0, answer.err
    assert rows_of(answer) == [*BEFORE_THE_LATE_ONE, line, *AFTER_IT, *AT_THE_END]


def test_lines_have_their_fields(tmp_path: Path) -> None:
    event, gap, *_, late, duplicate, dead, _, _ = replayed(tmp_path, late="side").lines
    place = {"stream": "default", "source": "a", "epoch": 0}
    times = {"ts": 100, "ref_time": 100, "error": 0, "at": 1000}
    whole = {"seq": 0, "type": "A", "payload": {"x": 1}, "late": False}
    assert event == {"kind": "event", **place, **times, **whole}
    assert {key: gap[key] for key in ("known_at", "ts_before", "ts_after", *place)} == {
        "known_at": 1010,
        "ts_before": 100,
        "ts_after": 120,
        **place,
    }
    assert (late["by"], late["epoch"]) == (190, 0)
    assert duplicate["reason"] == "copy"
    assert dead | place | {"epoch": None} == dead
    assert "`seq` is negative: -1" in dead["detail"]


@pytest.mark.parametrize("show", ["event", "gap", "late", "duplicate", "dead", "gap,dead", ""])
def test_show_only_selects_kinds(tmp_path: Path, show: str) -> None:
    whole = replayed(tmp_path, "--json", late="side")
    some = replayed(tmp_path, "--json", "--show", show, late="side")
    assert some.lines == [line for line in whole.lines if line["kind"] in show.split(",")]
    assert {key: some.summary[key] for key in COUNTS} == {key: whole.summary[key] for key in COUNTS}


def test_no_to_end_keeps_buffers(tmp_path: Path) -> None:
    answer = replayed(tmp_path, "--no-to-end", "--json")
    assert rows_of(answer) == [*BEFORE_THE_LATE_ONE, ("event", 1, True, 1300), *AFTER_IT]
    assert (answer.summary["held"], answer.summary["gaps"]) == (1, 1)
    assert rows_of(replayed(tmp_path, "--to-end")) == rows_of(replayed(tmp_path))


def test_summary_balances_all_records(tmp_path: Path) -> None:
    summary = replayed(tmp_path, "--json").summary
    ours = {"clock", "control"}
    assert summary.keys() - ours == {
        *COUNTS, "late_by_cause", "wait_ms", "events_per_cpu_second", "seconds", "dead_reasons",
        "sources",
    }  # fmt: skip
    assert sum(summary["late_by_cause"].values()) == summary["late"]
    counts = {"in": 7, "event": 4, "late": 1, "duplicate": 1, "dead": 1, "held": 0, "gaps": 2}
    assert {key: summary[key] for key in COUNTS} == counts
    assert (summary["clock"], summary["control"]) == (1, 0)
    assert summary["sources"] == {"a": counts}
    assert summary["in"] == sum(
        summary[key] for key in ("event", "late", "duplicate", "dead", "held")
    )
    # Number 2 waits 100 ns, all others are emitted at once.
    assert summary["wait_ms"] == {"mean": 2e-05, "p50": 0.0, "p99": 0.0001, "max": 0.0001}
    assert summary["seconds"] > 0
    assert summary["events_per_cpu_second"] > 0


def test_open_results_are_shown_once(tmp_path: Path) -> None:
    lines = [{"source": "a", "seq": at, "ts": at * 10**9, "type": "A"} for at in range(20)]
    path = json_lines(tmp_path / "events.jsonl", lines)
    window = "window: tumbling 2s, aggregate: {n: count()}"
    for finals, told in (("", 1), (", finals: true", 0)):
        queries = f"queries: {{w: {{{window}{finals}}}, v: {{{window}{finals}}}}}"
        (tmp_path / "t.yaml").write_text(f"streams: {{default: {{}}}}\n{queries}\n")
        answer = inorder("replay", "--topology", tmp_path / "t.yaml", path)
        said = [line for line in answer.err.splitlines() if "before they were final" in line]
        assert len(said) == told
        if told:
            assert "results of query w were" in said[0]
            assert "`finals: true`" in said[0]
            assert "`correct_for` (10 min)" in said[0]


def test_table_shows_worst_sources(tmp_path: Path) -> None:
    lines = [{"source": f"m{source}", "seq": 0, "ts": source + 1} for source in range(12)]
    path = json_lines(tmp_path / "many.jsonl", [*lines, lines[7], lines[7], lines[11]])
    answer = inorder("replay", "--topology", topology(tmp_path), path)
    assert "balance: in = event + late + duplicate + dead + held" in answer.err
    assert "waits: mean" in answer.err
    shown = [line.split()[1] for line in answer.err.splitlines() if line.startswith("│")]
    assert shown == ["m7", "m11", "m0", "m1", "m10", "…", "all"]
    assert "… 7 more" in answer.err
    whole = inorder("replay", "--json", "--topology", topology(tmp_path), path)
    assert len(whole.summary["sources"]) == 12


def test_merge_orders_by_corrected_time(tmp_path: Path) -> None:
    said = "b 0 10 100, a 0 5 100, b 1 30 200, a 1 30 210, a 2 40 220, b 2 35 230"
    lines = [
        {"source": source, "seq": int(seq), "ts": int(ts), "arrival": int(arrival)}
        for source, seq, ts, arrival in map(str.split, said.split(", "))
    ]
    answer = replay_of(tmp_path, topology_text(), lines)
    order = [(line["ref_time"], line["source"]) for line in answer.lines]
    assert order == [(5, "a"), (10, "b"), (30, "a"), (30, "b"), (35, "b"), (40, "a")]


@pytest.mark.parametrize("time_ns", [LAST_NS, LAST_NS + 1, 2**62, 2**63 - 1])
def test_arrival_clock_ends_in_2100(tmp_path: Path, time_ns: int) -> None:
    """A later arrival is a dead letter. A `ts` can have any value, and does not move the clock."""
    lines = [
        {"source": "a", "seq": 0, "ts": 5, "arrival": 10},
        {"source": "a", "seq": 1, "ts": time_ns},
        {"source": "b", "seq": 0, "ts": time_ns},
        {"source": "a", "seq": 2, "ts": 6, "arrival": time_ns},
    ]
    answer = replay_of(tmp_path, topology_text(), lines)
    ends = {f"{line['source']}{line['seq']}": line for line in answer.lines}
    assert {
        name: line["reason"] if line["kind"] == "dead" else line["kind"]
        for name, line in ends.items()
    } == {
        "a0": "event",
        "a1": "ahead",  # Only a later line could confirm it.
        "b0": "ahead" if time_ns >= 2**62 else "event",
        "a2": "arrival_huge" if time_ns > LAST_NS else "event",
    }
    assert (ends["b0"]["at"], ends["a2"]["at"]) == (LAST_NS, LAST_NS)
    assert answer.code == 0


def test_unnamed_stream_is_a_dead_letter(tmp_path: Path) -> None:
    line = b'{"source": "a", "seq": 0, "stream": "nowhere"}\n'
    answer = inorder("replay", "--topology", topology(tmp_path), stdin=line)
    (dead,) = answer.lines
    assert (dead["kind"], dead["reason"], dead["stream"]) == ("dead", "unknown_stream", "nowhere")
    assert answer.code == 0


def test_default_input_is_stdin(tmp_path: Path) -> None:
    text = recording(tmp_path).read_bytes()
    answer = inorder("replay", "--topology", topology(tmp_path), stdin=text)
    assert answer.lines == replayed(tmp_path).lines


def test_process_separates_outputs(tmp_path: Path) -> None:
    words = ("replay", "--json", "--topology", topology(tmp_path), "-")
    done = ended(*PROGRAM, *words, stdin=recording(tmp_path).read_text())
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == replayed(tmp_path).lines
    (last,) = done.stderr.splitlines()
    assert json.loads(last)["in"] == 7


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--show", "event,colour"), "--show colour: write one or more of event,gap,"),
        (("--colour",), "--colour"),
        (("--topology", "{folder}/absent.yaml"), "absent.yaml"),
        (("--topology", "{folder}/bad.yaml"), "streams.default.colour"),
    ],
)
def test_bad_arguments_exit_with_2(tmp_path: Path, options: tuple[str, ...], says: str) -> None:
    text_file(tmp_path / "bad.yaml", "streams: {default: {input: raw, colour: red}}\n")
    filled = [option.format(folder=tmp_path) for option in options]
    inorder("replay", "--topology", topology(tmp_path), *filled, recording(tmp_path)).refused(says)


def test_topology_is_required(tmp_path: Path) -> None:
    inorder("replay", recording(tmp_path)).refused("--topology")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [("no.jsonl.gz", b"plain", "not gzip"), ("no.parquet", b"PAR1 and no more", "no.parquet")],
)
def test_unreadable_input_exits_3(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    (tmp_path / name).write_bytes(content)
    inorder("replay", "--topology", topology(tmp_path), tmp_path / name).refused(says, code=3)


def test_unused_values_are_reported(tmp_path: Path) -> None:
    query = "{window: tumbling 1s, key: payload.k, aggregate: {s: sum(payload.v)}}"
    path = text_file(tmp_path / "q.yaml", f"streams: {{default: {{}}}}\nqueries: {{q: {query}}}\n")
    payloads: list[Any] = [{"k": 1, "v": 2}, {"v": 3}, {"k": 1, "v": "x"}]
    rows = [{"source": "a", "seq": n, "ts": n, "payload": each} for n, each in enumerate(payloads)]
    events = json_lines(tmp_path / "q.jsonl", rows)
    left = inorder("replay", "--topology", path, "--json", events).summary["left_out"]
    unused = {"window: events without a key": 1, "window: values that an aggregate cannot use": 1}
    assert left == unused
    table = inorder("replay", "--topology", path, events).err
    assert "left out by queries: window: events without a key: 1" in table


def test_changed_fields_are_named(tmp_path: Path) -> None:
    """A number becomes text, as from a device with decimal commas, or its field is renamed."""
    query = "{window: tumbling 1s, aggregate: {mean: avg(payload.temp), sum: sum(payload.n)}}"
    file = f"streams: {{default: {{}}}}\nqueries: {{cold: {query}}}\n"
    path = text_file(tmp_path / "cold.yaml", file)
    payloads: list[Any] = [{"temp": 2, "n": 1}, {"temp": "\x1b-18,0"}, {"temp": "-17,5"}]
    payloads += [{"temp": 3, "number": 1}] * 1_000
    rows = [
        {"source": "a", "seq": n, "ts": n * 10**9, "payload": each}
        for n, each in enumerate(payloads)
    ]
    events = json_lines(tmp_path / "cold.jsonl", rows)
    ran = inorder("replay", "--topology", path, "--json", events)
    said = {
        "text": 'cold.mean: 2 values of payload.temp are text, such as "\\u001b-18,0"',
        "absent": "cold.sum: the last 1,002 events have no payload.n",
    }
    assert {each["kind"]: each["text"] for each in ran.summary["unusable"]} == said
    assert ran.summary["unusable"][0].items() >= {
        ("query", "cold"),
        ("aggregate", "mean"),
        ("field", "payload.temp"),
    }
    first, second, *_ = (line for line in ran.lines if line["kind"] == "window")
    assert (first["values"], second["values"]) == (
        {"mean": 2, "sum": 1},
        {"mean": None, "sum": None},
    )
    table = inorder("replay", "--topology", path, events).err
    assert all(f"\n{sentence}\n" in table for sentence in said.values())


@pytest.mark.parametrize("ahead_s", [60, 3_600, 31_536_000])
def test_wrong_broker_clock_is_ignored(tmp_path: Path, ahead_s: int) -> None:
    """A broker is ahead for 20 s of a minute, and then right again."""
    second = 1_000_000_000
    lines = []
    for number in range(60 * 40):
        ts = LAST_NS // 3 + number * second // 40
        is_ahead = 20 * 40 <= number < 40 * 40
        arrival = ts + second // 50 + is_ahead * ahead_s * second
        lines.append({"source": f"s{number % 4}", "seq": number // 4, "ts": ts, "arrival": arrival})
    written = replay_of(tmp_path, topology_text(), lines).lines
    assert len(written) == len(lines)
    assert [line for line in written if line["kind"] != "event" or line["late"]] == []
    assert max(line["at"] - line["ts"] for line in written) < second
