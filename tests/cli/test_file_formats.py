"""Files in Avro and Protobuf through the commands that read files: examples, and what is refused
with the remedy."""

from __future__ import annotations

import io
import json
from pathlib import Path

import fastavro
import pytest
from click import Command
from click.testing import CliRunner, Result

from cli.audit import command as audit
from cli.files import init, match, replay
from tests.codec.values.protobufs import descriptor_set, message_class
from tests.kit.registry import Registry, serving
from tests.recordings.test_encoded import SCHEMA, container, delimited

BEGIN_S = 1_700_000_000
SOURCES = ("press-7", "oven-2")
AVRO = [
    {"device": source, "n": n, "at": 1_000 * (BEGIN_S + n)} for n in range(20) for source in SOURCES
]
WHERE = ["--source", "device", "--seq", "n", "--ts", "at"]


def encoded(row: object) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(dict(SCHEMA)), row)
    return stream.getvalue()


def message(source: str, number: int) -> bytes:
    found = message_class()(device=source, n=number)
    found.at.seconds = BEGIN_S + number
    return bytes(found.SerializeToString())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("press.avro").write_bytes(container("deflate", AVRO))
    Path("press.avsc").write_text(json.dumps(SCHEMA))
    Path("values.bin").write_bytes(delimited(*map(encoded, AVRO)))
    Path("plant.desc").write_bytes(descriptor_set())
    messages = [message(source, n) for n in range(20) for source in SOURCES]
    Path("press.pb").write_bytes(delimited(*messages))
    return tmp_path


def run(command: Command, *words: str) -> Result:
    return CliRunner().invoke(command, words)


FILES = [
    ["press.avro"],
    ["--format", "avro", "press.avro"],
    ["--format", "avro", "--schema", "press.avsc", "values.bin"],
    ["--format", "protobuf", "--schema", "plant.desc", "--message", "plant.Telemetry", "press.pb"],
]


@pytest.mark.parametrize("words", FILES, ids=" ".join)
def test_each_command_reads_it(folder: Path, words: list[str]) -> None:
    result = run(replay.command, "--json", *WHERE, *words)
    assert result.exit_code == 0, result.stderr
    totals = json.loads(result.stderr.splitlines()[-1])
    assert (totals["in"], totals["event"]) == (40, 40)
    first = json.loads(result.stdout.splitlines()[0])
    assert (first["seq"], first["ts"]) == (0, BEGIN_S * 10**9)
    assert first["payload"]["at"].startswith("2023-11-14T22:13:20")

    account = json.loads(run(audit.command, "--json", *words).stdout.splitlines()[-1])
    assert (account["records"], account["machines"], account["missing"]) == (40, 2, 0)

    proposed = run(init.command, *words)
    assert "source: payload.device" in proposed.stdout, proposed.stderr
    assert ("format: " in proposed.stdout) == ("--schema" in words)

    query = ["--query", "PATTERN SEQ(tick a, tick b) WITHIN 2s", "--type", '="tick"']
    found = run(match.command, "--json", *query, *WHERE, *words)
    assert json.loads(found.stderr.splitlines()[-1])["in"] == 40, found.stderr


def test_a_registry_has_the_schema_whatever_its_subject(folder: Path) -> None:
    with serving(Registry()) as registry:
        number = registry.register("plant-telemetry", json.dumps(SCHEMA))
        prefix = b"\0" + number.to_bytes(4, "big")
        Path("values.bin").write_bytes(delimited(*(prefix + encoded(row) for row in AVRO)))
        words = ["--format", "avro", "--registry", registry.url, "values.bin"]
        result = run(replay.command, "--json", *WHERE, *words)
    assert json.loads(result.stderr.splitlines()[-1])["event"] == 40


def test_values_are_read_by_fields_and_format_of_the_topology(folder: Path) -> None:
    fields = "fields: {source: payload.device, seq: payload.n, ts: payload.at}"
    schema = "format: avro, schema: {file: press.avsc}"
    Path("t.yaml").write_text(f"streams: {{presses: {{{schema}, {fields}}}}}\n")
    for name in ("values.bin", "press.avro"):
        result = run(replay.command, "--json", "--topology", "t.yaml", "--values", name)
        assert json.loads(result.stderr.splitlines()[-1])["event"] == 40, result.stderr


def test_what_init_is_given_it_takes(folder: Path) -> None:
    result = run(init.command, "--source", "device", "--ts", "at", "press.avro")
    assert "source: payload.device  # given" in result.stdout
    assert "seq: payload.n  # sure" in result.stdout


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
def test_what_does_not_go_together_is_refused(folder: Path, words: list[str], message: str) -> None:
    for command in (replay.command, audit.command, init.command):
        result = run(command, *WHERE, *words)
        assert (result.exit_code, message in result.stderr) == (2, True), result.stderr


def test_a_format_wants_to_know_where_the_source_is(folder: Path) -> None:
    result = run(replay.command, "--format", "avro", "press.avro")
    assert result.exit_code == 2
    assert "--format avro needs --source" in result.stderr
    result = run(replay.command, "--topology", "t.yaml", "press.avro")
    assert result.exit_code == 2


def test_avro_without_a_word_says_what_to_name(folder: Path) -> None:
    Path("t.yaml").write_text("streams: {default: }\n")
    result = run(replay.command, "--topology", "t.yaml", "press.avro")
    assert result.exit_code == 3
    assert "name its fields: --source NAME" in result.stderr
