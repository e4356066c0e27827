"""Examples: a command whose output cannot be written reports it and fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.program import PROGRAM
from tests import ROOT
from tests.cli.invoking import text_file
from tests.kit.programs import Ended, ended

PLAIN = str(ROOT / "docs" / "examples" / "plain.yaml")
REPLAY = ("replay", "--topology", PLAIN)
LINES = 3_000

UNBUFFERED = {"PYTHONUNBUFFERED": "1"}


def run(*arguments: str, redirection: str = "", env: dict[str, str] | None = None) -> Ended:
    """Run `inorder` in a shell that closes or redirects its streams."""
    return ended("bash", "-c", f'exec "$@" {redirection}', "-", *PROGRAM, *arguments, env=env)


@pytest.fixture
def events(tmp_path: Path) -> str:
    path = text_file(
        tmp_path / "events.jsonl", "".join(f'{{"source":"a","seq":{i}}}\n' for i in range(LINES))
    )
    return str(path)


@pytest.mark.parametrize("env", [{}, UNBUFFERED], ids=["buffered", "unbuffered"])
def test_full_disk_is_reported(events: str, env: dict[str, str]) -> None:
    """Files are limited to 200 kB, so the first write is cut short without an error."""
    script = f'trap "" XFSZ; ulimit -f 200; exec "$@" >{events}.out'
    done = ended("bash", "-c", script, "-", *PROGRAM, *REPLAY, events, env=env)
    assert done.returncode == 1
    assert "Error: standard output cannot be written: File too large" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [(*REPLAY, "EVENTS"), ("check", PLAIN), ("init", "EVENTS"), ("--version",), ("check", "-h")],
    ids=lambda arguments: arguments[0] if arguments[-1] != "-h" else "help",
)
@pytest.mark.parametrize("redirection", [">/dev/full", ">&-"])
def test_unwritable_output_is_reported(
    events: str, arguments: tuple[str, ...], redirection: str
) -> None:
    said = run(*(events if a == "EVENTS" else a for a in arguments), redirection=redirection)
    assert said.returncode == 1
    assert said.stderr.startswith("Error: standard output ")
    assert "Traceback" not in said.stderr


def test_closed_input_is_reported() -> None:
    done = run(*REPLAY, "-", redirection="<&-")
    assert (done.returncode, done.stderr) == (3, "Error: standard input is closed; name a file\n")


@pytest.mark.parametrize("env", [{}, UNBUFFERED], ids=["buffered", "unbuffered"])
def test_closed_pipe_ends_quietly(events: str, env: dict[str, str]) -> None:
    done = run(*REPLAY, events, redirection="| head -1; exit ${PIPESTATUS[0]}", env=env)
    assert done.stdout.count("\n") == 1
    assert "Traceback" not in done.stderr
