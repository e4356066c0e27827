"""End to end: as the first process of a container, the image's entry point obeys SIGTERM at once.

The kernel withholds from a namespace's first process every signal that it has no handler for. No
container engine is needed, since a namespace of processes is enough.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cli.local.process import find_descendants
from cli.program import PROGRAM
from tests import ROOT
from tests.services import require
from tests.waiting import wait_until

NAMESPACE = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child")
(ENTRY,) = re.findall(r"^ENTRYPOINT (.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
SOON_S = 20.0
"""Seconds, fewer than a command waits for brokers."""

pytestmark = [pytest.mark.programs, pytest.mark.slow]


def missing() -> str | None:
    if shutil.which("tini") is None:
        return "tini was not found; install it"
    tried = subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False, timeout=30)
    return "this machine gives no namespaces" if tried.returncode else None


@contextmanager
def first(*command: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run a command as the first process of a namespace; yield the process around it, and the
    command's id outside.
    """
    with subprocess.Popen([*NAMESPACE, *command], stdout=subprocess.DEVNULL) as around:
        try:
            wait_until(lambda: bool(find_descendants(around.pid)), "the first process")
            yield around, find_descendants(around.pid)[0]
        finally:
            around.kill()


WHERE = ("--topology", "infra/topology.yaml", "--brokers", "127.0.0.1:1")
WORKER, TOPICS = ("worker", *WHERE), ("topics", "create", *WHERE)


@pytest.mark.parametrize(
    ("words", "after_s"), [(WORKER, 0.0), (WORKER, 0.1), (TOPICS, 0.02), (TOPICS, 0.1)]
)
def test_entry_point_obeys_sigterm(words: tuple[str, ...], after_s: float) -> None:
    require(missing())
    *init, program = json.loads(ENTRY)
    assert program == "inorder"
    with first(*init, *PROGRAM, *words) as (around, pid):
        wait_until(lambda: bool(find_descendants(pid)), "the command")
        time.sleep(after_s)
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: around.poll() is not None, "its end", quiet_s=SOON_S)
        assert around.returncode in {0, 128 + signal.SIGTERM}


def test_bare_command_ignores_sigterm() -> None:
    require(missing())
    with first(sys.executable, "-c", "import time; time.sleep(600)") as (around, pid):
        wait_until(lambda: "python" in os.readlink(f"/proc/{pid}/exe"), "Python")  # noqa: PTH115
        os.kill(pid, signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            around.wait(1.0)
