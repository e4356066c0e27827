"""Examples: help, settings from the environment, and refusals common to all commands."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import click
import pytest

from cli.main import COMMANDS, GROUPS, HIDDEN
from tests.cli.invoking import TOPOLOGY, commands, inorder, text_file
from tests.kit.programs import Ended, python

WITHOUT_RESULT = {"init", "keys", "read", "dev", "sample"}
WITHOUT_RESULT |= {"spark run", "spark live", "spark views"}
EXTRAS_ONLY = ("psycopg", "pyarrow", "redis")
KAFKA_ONLY = (
    *("aiohttp", "aiokafka", "confluent_kafka", "cramjam", "faust", "mode"),
    *("prometheus_client", "rocksdict"),
)
"""Modules that the extra `kafka` brings."""
LATE = b'{"source": "a", "seq": 1, "arrival": 5}\n{"source": "a", "seq": 1, "arrival": 6}\n'


@pytest.fixture
def topology(tmp_path: Path) -> Path:
    return text_file(tmp_path / "topology.yaml", TOPOLOGY)


def test_help_lists_visible_commands() -> None:
    answer = inorder("--help").well()
    _, *sections = re.split(rf"^({'|'.join(GROUPS)}):$", answer.out, flags=re.M)
    listed = {
        heading: [line.split()[0] for line in lines.strip().splitlines()]
        for heading, lines in zip(sections[::2], sections[1::2], strict=True)
    }
    assert listed == {
        heading: [name for name in group if name not in HIDDEN] for heading, group in GROUPS.items()
    }


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
def test_stop_during_import_is_clean(command: str, module: str, number: int) -> None:
    assert written_meanwhile(command, module, number) == (0, "")


@pytest.mark.parametrize(
    ("module", "number", "answer"),
    [
        ("click", signal.SIGTERM, (-signal.SIGTERM, "")),
        ("click", signal.SIGINT, (-signal.SIGINT, "")),
        ("agents.exits", signal.SIGINT, (1, "\nAborted!\n")),
    ],
)
def test_signal_during_import_ends_replay(
    module: str, number: int, answer: tuple[int, str]
) -> None:
    assert written_meanwhile("replay", module, number) == answer


def written_meanwhile(command: str, module: str, number: int) -> tuple[int, str]:
    """Return exit code and error output of a command that receives the signal while it imports the
    module.
    """
    done = python("-c", TOLD_MEANWHILE.format(module=module, number=int(number)), command)
    return done.returncode, done.stderr


def test_unknown_command_exits_with_2() -> None:
    inorder("reply").refused("reply")


def test_options_override_variables(topology: Path) -> None:
    named = {"INORDER_TOPOLOGY": str(topology)}
    inorder("replay", env=named).well()
    absent = {"INORDER_TOPOLOGY": "absent.yaml"}
    assert inorder("replay", env=absent).code == 2
    inorder("replay", "--topology", topology, env=absent).well()


def test_replay_options_have_variables(topology: Path) -> None:
    gaps = {"INORDER_REPLAY_SHOW": "gap", "INORDER_REPLAY_JSON": "1"}
    answer = inorder("replay", "--topology", topology, env=gaps, stdin=LATE)
    assert (answer.lines, answer.summary["event"]) == ([], 1)
    answer = inorder("replay", "--topology", topology, "--show", "event", env=gaps, stdin=LATE)
    assert [line["kind"] for line in answer.lines] == ["event"]


@pytest.mark.parametrize(("words", "command"), commands())
def test_results_are_available_as_json(words: tuple[str, ...], command: click.Command) -> None:
    """Exceptions print what was requested, like `init` and `keys`, or only JSON, like `read`."""
    options = {spelled for option in command.params for spelled in option.opts}
    assert options & {"--json", "--log"} or " ".join(words) in WITHOUT_RESULT


@pytest.mark.parametrize(("words", "command"), commands())
def test_variable_matches_its_option(words: tuple[str, ...], command: click.Command) -> None:
    """Unless stated, a variable's name follows from the parameter of the function."""
    for option in command.params:
        if isinstance(option, click.Option) and option.envvar is None:
            assert option.name == option.opts[0].lstrip("-").replace("-", "_"), words


@pytest.mark.parametrize(
    "command",
    [
        ("topics", "create", "--topology", "absent.yaml"),
        ("dump", "--topology", "absent.yaml"),
        ("produce", "--topic", "raw"),
    ],
)
@pytest.mark.parametrize("by_environment", [False, True])
def test_embedded_is_only_for_worker(command: tuple[str, ...], by_environment: bool) -> None:
    given = () if by_environment else ("--brokers", "embedded")
    inorder(*command, *given, env={"INORDER_BROKERS": "embedded"}).refused(
        "--brokers embedded: only `inorder worker`"
    )


def test_only_worker_offers_embedded() -> None:
    offering = [name for name in COMMANDS if "`embedded`" in inorder(name, "--help").out]
    assert offering == ["worker"]


@pytest.mark.parametrize(
    ("arguments", "absent", "extra"),
    [
        (("sink", "postgres", "--postgres", "host=h"), "psycopg", "sinks"),
        (("sink", "redis", "--redis", "redis://h"), "redis", "sinks"),
        (("sink", "files", "--folder", "out"), "pyarrow", "files"),
        (("replay", "{folder}/rows.parquet"), "pyarrow", "files"),
        (("stage", "--name", "all", "--state-dir", "x"), "redis", "sinks"),
    ],
    ids=lambda each: "-".join(each) if isinstance(each, tuple) else None,
)
def test_missing_extra_is_named(
    arguments: tuple[str, ...], absent: str, extra: str, tmp_path: Path
) -> None:
    """All other modules, including the other commands, can be imported without the extra."""
    topology = text_file(tmp_path / "topology.yaml", f"{TOPOLOGY}state: redis\n")
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


def run_without(absent: tuple[str, ...], arguments: list[str]) -> Ended:
    """Run a command in a process in which these modules cannot be imported."""
    gone = f"import sys; sys.modules.update(dict.fromkeys({absent})); import cli.main"
    return python("-c", f"{gone}; cli.main.main({arguments})")


@pytest.mark.parametrize(
    "arguments",
    [
        *("demo", "dev", "doctor", "dump", "produce", "read", "resend", "stage", "sync-server"),
        *("sink redis", "spark run", "topics create", "worker"),
        "audit --topic raw --brokers 127.0.0.1:1",
        "init --topic raw --brokers 127.0.0.1:1",
        "check docs/examples/press.yaml --brokers 127.0.0.1:1",
    ],
)
def test_missing_kafka_extra_is_named(arguments: str) -> None:
    done = run_without(KAFKA_ONLY, arguments.split())
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.endswith(" is not installed; pip install 'inorder-engine[kafka]'")
    assert line.startswith(tuple(f"Error: {module}" for module in KAFKA_ONLY))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("audt", "no such command `audt`; did you mean `audit`?\n"),
        ("sync_server", "no such command `sync_server`; did you mean `sync-server`?\n"),
        ("spark vews", "no such command `vews`; did you mean `views`?"),
        ("sink redi", "no such command `redi`; did you mean `redis`?"),
        ("topics craete", "no such command `craete`; did you mean `create`?"),
        ("sink kafka", "no such command `kafka`; write one of: files, postgres, redis\n"),
        ("a\x1bb", "no such command `a\\x1bb`; write one of: demo, sample, audit,"),
    ],
)
def test_typo_suggests_a_command(words: str, said: str) -> None:
    answer = inorder(*words.split(" "))
    assert answer.code == 2
    assert said in answer.err
    assert "Traceback" not in answer.err
