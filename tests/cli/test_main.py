"""Examples: help, settings from the environment, and refusals that hold for all commands."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from cli.main import COMMANDS, GROUPS, HIDDEN, main
from tests import ROOT
from tests.cli.invoking import TOPOLOGY, inorder

WITHOUT_RESULT = {"init", "keys", "read", "dev"}
WITHOUT_RESULT |= {"spark run", "spark live", "spark views"}
EXTRAS_ONLY = ("psycopg", "pyarrow", "redis")
KAFKA_ONLY = (
    *("aiohttp", "aiokafka", "confluent_kafka", "cramjam", "faust", "mode"),
    *("prometheus_client", "rocksdict"),
)
"""What the extra `kafka` brings, as modules."""
LATE = b'{"source": "a", "seq": 1, "arrival": 5}\n{"source": "a", "seq": 1, "arrival": 6}\n'


@pytest.fixture
def topology(tmp_path: Path) -> Path:
    path = tmp_path / "topology.yaml"
    path.write_text(TOPOLOGY)
    return path


def test_help_lists_every_command_but_the_hidden_ones() -> None:
    answer = inorder("--help")
    assert answer.code == 0
    _, *sections = re.split(rf"^({'|'.join(GROUPS)}):$", answer.out, flags=re.M)
    listed = {
        heading: [line.split()[0] for line in lines.strip().splitlines()]
        for heading, lines in zip(sections[::2], sections[1::2], strict=True)
    }
    assert listed == {
        heading: [name for name in group if name not in HIDDEN] for heading, group in GROUPS.items()
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_what_it_does(command: str) -> None:
    answer = inorder(command, "--help")
    assert answer.code == 0
    assert "Usage:" in answer.out


def test_help_and_replay_import_no_kafka_client() -> None:
    check = (
        "import sys, click.testing, cli.main;"
        "run = click.testing.CliRunner().invoke;"
        "codes = [run(cli.main.main, args).exit_code for args in (['-h'], ['replay', '-h'])];"
        "print(codes, [name for name in ('aiokafka', 'confluent_kafka') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", check],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == "[0, 0] []"


TOLD_MEANWHILE = """
import os, sys
from inorder.__main__ import main
class ToldMeanwhile:
    @staticmethod
    def find_spec(name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), {number})
            raise AssertionError("it went on")
sys.meta_path.insert(0, ToldMeanwhile)
main()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("module", ["click", "agents.exits"])
@pytest.mark.parametrize("command", ["worker", "stage", "sink", "sync-server"])
def test_a_command_that_serves_and_is_told_to_stop_while_it_is_imported(
    command: str, module: str, number: int
) -> None:
    assert written_meanwhile(command, module, number) == (0, "")


@pytest.mark.parametrize(
    ("module", "number", "answer"),
    [
        ("click", signal.SIGTERM, (-signal.SIGTERM, "")),
        ("click", signal.SIGINT, (-signal.SIGINT, "")),
        ("agents.exits", signal.SIGINT, (1, "\nAborted!\n")),
    ],
)
def test_a_command_that_answers_dies_of_a_signal_in_silence(
    module: str, number: int, answer: tuple[int, str]
) -> None:
    assert written_meanwhile("replay", module, number) == answer


def written_meanwhile(command: str, module: str, number: int) -> tuple[int, str]:
    """Its code, and what it says, when the signal comes as it begins to import the module."""
    done = subprocess.run(
        [sys.executable, "-c", TOLD_MEANWHILE.format(module=module, number=int(number)), command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr


def test_an_unknown_command_ends_with_2() -> None:
    answer = inorder("reply")
    assert answer.code == 2
    assert "reply" in answer.err


def test_settings_come_from_the_environment_and_the_command_line_wins(topology: Path) -> None:
    named = {"INORDER_TOPOLOGY": str(topology)}
    assert inorder("replay", env=named).code == 0
    absent = {"INORDER_TOPOLOGY": "absent.yaml"}
    assert inorder("replay", env=absent).code == 2
    assert inorder("replay", "--topology", topology, env=absent).code == 0


def test_options_of_one_command_have_variables_too(topology: Path) -> None:
    gaps = {"INORDER_REPLAY_SHOW": "gap", "INORDER_REPLAY_JSON": "1"}
    answer = inorder("replay", "--topology", topology, env=gaps, stdin=LATE)
    assert (answer.lines, answer.summary["event"]) == ([], 1)
    answer = inorder("replay", "--topology", topology, "--show", "event", env=gaps, stdin=LATE)
    assert [line["kind"] for line in answer.lines] == ["event"]


@pytest.mark.parametrize("name", COMMANDS)
def test_what_tells_of_results_or_its_state_tells_it_as_json_too(name: str) -> None:
    """`init`, `keys`, `spark views` (SQL) write what they are asked for, `read` JSON alone."""
    command = main.get_command(click.Context(main), name)
    assert command is not None
    commands = command.commands if isinstance(command, click.Group) else {"": command}
    for part, each in commands.items():
        options = {spelled for option in each.params for spelled in option.opts}
        full = f"{name} {part}".strip()
        if full not in WITHOUT_RESULT:
            assert options & {"--json", "--log"}, full


@pytest.mark.parametrize("name", COMMANDS)
def test_a_variable_is_named_as_the_option_is(name: str) -> None:
    """Unless it says otherwise, its name follows from the parameter of the function."""
    command = main.get_command(click.Context(main), name)
    assert command is not None
    commands = command.commands.values() if isinstance(command, click.Group) else [command]
    for option in (param for each in commands for param in each.params):
        if isinstance(option, click.Option) and option.envvar is None:
            spelled = option.opts[0].lstrip("-").replace("-", "_")
            assert option.name == spelled, f"{name}: {option.opts}"


@pytest.mark.parametrize(
    "command",
    [
        ("topics", "create", "--topology", "absent.yaml"),
        ("dump", "--topology", "absent.yaml"),
        ("produce", "--topic", "raw"),
    ],
)
@pytest.mark.parametrize("by_environment", [False, True])
def test_the_embedded_broker_is_the_workers_alone(
    command: tuple[str, ...], by_environment: bool
) -> None:
    given = () if by_environment else ("--brokers", "embedded")
    answer = inorder(*command, *given, env={"INORDER_BROKERS": "embedded"})
    assert (answer.code, answer.out) == (2, "")
    assert "--brokers embedded: only `inorder worker`" in answer.err


def test_only_the_worker_offers_the_embedded_broker() -> None:
    offering = [name for name in COMMANDS if "`embedded`" in inorder(name, "--help").out]
    assert offering == ["worker"]


@pytest.mark.parametrize(
    ("arguments", "absent", "extra"),
    [
        (("sink", "postgres", "--postgres", "host=h"), "psycopg", "sinks"),
        (("sink", "redis", "--redis", "redis://h"), "redis", "sinks"),
        (("sink", "files", "--folder", "out"), "pyarrow", "files"),
        (("replay", "{folder}/rows.parquet"), "pyarrow", "files"),
        (("stage", "--name", "reorder", "--state-dir", "x"), "redis", "sinks"),
    ],
    ids=lambda each: "-".join(each) if isinstance(each, tuple) else None,
)
def test_a_command_whose_extra_is_not_installed_says_which(
    arguments: tuple[str, ...], absent: str, extra: str, tmp_path: Path
) -> None:
    """And everything else, the other commands among it, is imported without it."""
    topology = tmp_path / "topology.yaml"
    topology.write_text(f"{TOPOLOGY}state: redis\n")
    (tmp_path / "rows.parquet").write_bytes(b"PAR1")
    if arguments[0] == "sink":
        arguments += ("--brokers", "127.0.0.1:1", "--topic", "results")
    else:
        arguments += ("--topology", str(topology))
    if arguments[0] == "stage":
        arguments += ("--brokers", "127.0.0.1:1")
    done = run_without(EXTRAS_ONLY, [each.format(folder=tmp_path) for each in arguments])
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.endswith(f" {absent} is not installed; pip install 'inorder-engine[{extra}]'")


def run_without(absent: tuple[str, ...], arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command in a process in which these modules cannot be imported."""
    gone = f"import sys; sys.modules.update(dict.fromkeys({absent})); import cli.main"
    return subprocess.run(
        [sys.executable, "-c", f"{gone}; cli.main.main({arguments})"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("replay", "--topology", "press.yaml", "press.jsonl"),
        ("match", "--query", "PATTERN SEQ(stroke a) WITHIN 1 s", "press.jsonl"),
        ("audit", "--source", "device", "--seq", "n", "--ts", "time", "telemetry.csv"),
        ("audit", "press.jsonl"),
        ("check", "press.yaml"),
        ("check", "--defaults"),
        ("init", "press.jsonl"),
        ("keys", "--help"),
    ],
    ids=" ".join,
)
def test_without_the_extra_kafka_a_command_that_reads_files_runs(
    arguments: tuple[str, ...],
) -> None:
    examples = ROOT / "docs" / "examples"
    found = [str(examples / each) if (examples / each).is_file() else each for each in arguments]
    done = run_without(KAFKA_ONLY, found)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("audit", "--topic", "raw", "--brokers", "127.0.0.1:1"),
        ("check", str(ROOT / "docs/examples/press.yaml"), "--brokers", "127.0.0.1:1"),
        ("demo",),
        ("dev",),
        ("doctor",),
        ("dump",),
        ("init", "--topic", "raw", "--brokers", "127.0.0.1:1"),
        ("produce",),
        ("read",),
        ("resend",),
        ("sink", "redis"),
        ("spark", "run"),
        ("stage",),
        ("sync-server",),
        ("topics", "create"),
        ("worker",),
    ],
    ids=" ".join,
)
def test_without_the_extra_kafka_a_command_that_needs_it_says_so(
    arguments: tuple[str, ...],
) -> None:
    done = run_without(KAFKA_ONLY, [*arguments])
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.endswith(" is not installed; pip install 'inorder-engine[kafka]'")
    assert line.startswith(tuple(f"Error: {module}" for module in KAFKA_ONLY))
