"""Examples: Avro and Protobuf files in the commands that read files, and refusals with their
remedy.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.invoking import inorder, text_file
from tests.codec.values.protobufs import descriptor_set, message_class
from tests.codec.values.test_avro import written
from tests.kit.registry import Registry
from tests.recordings.test_encoded import SCHEMA, container, delimited, in_avro

BEGIN_S = 1_700_000_000
SOURCES = ("press-7", "oven-2")
AVRO = [
    {"device": source, "n": n, "at": 1_000 * (BEGIN_S + n)} for n in range(20) for source in SOURCES
]
WHERE = ["--source", "device", "--seq", "n", "--ts", "at"]


def message(source: str, number: int) -> bytes:
    found = message_class()(device=source, n=number)
    found.at.seconds = BEGIN_S + number
    return bytes(found.SerializeToString())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("press.avro").write_bytes(container("deflate", AVRO))
    Path("press.avsc").write_text(json.dumps(SCHEMA))
    Path("values.bin").write_bytes(delimited(*map(in_avro, AVRO)))
    Path("plant.desc").write_bytes(descriptor_set())
    messages = [message(source, n) for n in range(20) for source in SOURCES]
    Path("press.pb").write_bytes(delimited(*messages))
    return tmp_path


FILES = [
    ["press.avro"],
    ["--format", "avro", "press.avro"],
    ["--format", "avro", "--schema", "press.avsc", "values.bin"],
    ["--format", "protobuf", "--schema", "plant.desc", "--message", "plant.Telemetry", "press.pb"],
]


@pytest.mark.parametrize("words", FILES, ids=" ".join)
def test_file_commands_read_the_format(folder: Path, words: list[str]) -> None:
    result = inorder("replay", "--json", *WHERE, *words).well()
    totals = result.summary
    assert (totals["in"], totals["event"]) == (40, 40)
    first = result.lines[0]
    assert (first["seq"], first["ts"]) == (0, BEGIN_S * 10**9)
    assert first["payload"]["at"].startswith("2023-11-14T22:13:20")

    account = inorder("audit", "--json", *words).last
    assert (account["records"], account["machines"], account["missing"]) == (40, 2, 0)

    proposed = inorder("init", *words)
    assert "source: payload.device" in proposed.out, proposed.err
    assert ("format: " in proposed.out) == ("--schema" in words)

    query = ["--query", "PATTERN SEQ(tick a, tick b) WITHIN 2s", "--type", '="tick"']
    found = inorder("match", "--json", *query, *WHERE, *words)
    assert found.summary["in"] == 40, found.err


def test_registry_schema_is_found_by_id(folder: Path, registry: Registry) -> None:
    number = registry.register("plant-telemetry", json.dumps(SCHEMA))
    prefix = b"\0" + number.to_bytes(4, "big")
    Path("values.bin").write_bytes(delimited(*(prefix + in_avro(row) for row in AVRO)))
    words = ["--format", "avro", "--registry", registry.url, "values.bin"]
    result = inorder("replay", "--json", *WHERE, *words)
    assert result.summary["event"] == 40


def test_topology_mapping_applies(folder: Path) -> None:
    fields = "fields: {source: payload.device, seq: payload.n, ts: payload.at}"
    schema = "format: avro, schema: {file: press.avsc}"
    Path("t.yaml").write_text(f"streams: {{presses: {{{schema}, {fields}}}}}\n")
    for name in ("values.bin", "press.avro"):
        result = inorder("replay", "--json", "--topology", "t.yaml", "--values", name)
        assert result.summary["event"] == 40, result.err


LOAD = {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "load", "type": "int"}]}
FORCE = {
    **SCHEMA,
    "fields": [
        *SCHEMA["fields"],
        {"name": "force", "type": "double", "aliases": ["load"]},
        {"name": "unit", "type": "string", "default": "kN"},
    ],
}


@pytest.mark.parametrize("name", ["values.bin", "press.avro"])
def test_reader_schema_renames_a_field(folder: Path, name: str) -> None:
    """A sender names the field `load`, and the query names it `force`."""
    rows = [{**row, "load": 3} for row in AVRO]
    Path("press.avro").write_bytes(container(rows=rows, schema=LOAD))
    Path("values.bin").write_bytes(delimited(*(written(LOAD, row) for row in rows)))
    Path("press.avsc").write_text(json.dumps(LOAD))
    Path("force.avsc").write_text(json.dumps(FORCE, indent=2))
    values: dict[str, dict[str, Any]] = {}
    for reader in ("", ", reader: force.avsc"):
        write_topology(reader)
        result = inorder("replay", "--json", "--topology", "t.yaml", "--values", name).well()
        (window,) = result.of("window")
        values[reader] = window["values"]
        assert ("unmet" in result.summary) == (reader == "")
    assert values == {
        "": {"sum": None, "unit": None},
        ", reader: force.avsc": {"sum": 120.0, "unit": "kN"},
    }


BYTES = """
{"type": "record", "name": "A", "fields": [{"name": "b", "type": "bytes", "default": ""}]}
"""


def write_topology(reader: str) -> None:
    Path("t.yaml").write_text(
        f"streams: {{a: {{format: avro, schema: {{file: press.avsc{reader}}}, fields:"
        " {source: payload.device, seq: payload.n, ts: payload.at}}}\n"
        "queries: {q: {window: tumbling 1h,"
        " aggregate: {sum: sum(payload.force), unit: last(payload.unit)}}}\n"
    )


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "No such file or directory; name a file with the Avro schema of a record"),
        ("{", "is not an Avro schema ("),
        ('{"type": "recrod"}', "is not an Avro schema ("),
        ('{"type": "array", "items": "null"}', "has an array whose items may be more than"),
        ('"string"', "is not the schema of a record"),
        (" " * 65_537, "is longer than 65,536 characters; name a file"),
        (BYTES, "has a default for the field `b`, whose type is bytes"),
    ],
    ids=["absent", "no JSON", "no schema", "without bound", "no record", "long", "default"],
)
@pytest.mark.parametrize("command", [["check"], ["replay", "press.avro", "--topology"]])
def test_bad_reader_schema_is_refused(
    folder: Path, command: list[str], content: str | None, says: str
) -> None:
    write_topology(", reader: force.avsc")
    if content is not None:
        Path("force.avsc").write_text(content)
    result = inorder(*command, "t.yaml")
    result.refused(says, "t.yaml: streams.a.schema.reader: ./force.avsc")


def test_init_keeps_given_fields(folder: Path) -> None:
    result = inorder("init", "--source", "device", "--ts", "at", "press.avro")
    assert "source: payload.device  # given" in result.out
    assert "seq: payload.n  # certain" in result.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--format", "protobuf", "press.pb"], "--format protobuf: the schema is missing"),
        (
            ["--format", "protobuf", "--schema", "plant.desc", "press.pb"],
            "--message is missing; write the message",
        ),
        (["--format", "avro", "--schema", "press.avsc", "t.csv"], "t.csv is CSV by its name"),
        (["--format", "protobuf", "--registry", "http://r:1", "press.avro"], "is Avro by its name"),
        (["--format", "bytes", "values.bin"], "bytes have no field"),
        (["--schema", "press.avsc", "values.bin"], "write --format avro or protobuf"),
        (["--registry", "http://r:1", "t.jsonl"], "leave it out"),
        (
            ["--format", "avro", "--schema", "a", "--registry", "http://r:1", "values.bin"],
            "name one of the two",
        ),
        (
            ["--format", "avro", "--schema", "none.avsc", "values.bin"],
            "name the file of the schema",
        ),
        (["--format", "avro", "--message", "a.B", "values.bin"], "leave it out"),
    ],
)
def test_conflicting_options_are_refused(folder: Path, words: list[str], message: str) -> None:
    for command in ("replay", "audit", "init"):
        inorder(command, *WHERE, *words).refused(message)


def test_format_option_needs_source(folder: Path) -> None:
    inorder("replay", "--format", "avro", "press.avro").refused("--format avro needs --source")
    inorder("replay", "--topology", "t.yaml", "press.avro").refused()


def test_avro_without_fields_is_refused(folder: Path) -> None:
    topology = text_file(folder / "t.yaml", "streams: {default: }\n")
    answer = inorder("replay", "--topology", topology, "press.avro")
    answer.refused("name its fields: --source NAME", code=3)
