"""Run a command that can hang, together with all processes that it starts."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

from tests import ROOT


def run_to_end(command: Sequence[str], env: Mapping[str, str], timeout_s: float) -> str:
    """Run a command in the project's folder, assert that it succeeds, and return its output.

    Kills its process group and raises subprocess.TimeoutExpired after `timeout_s`.
    """
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            told, complaints = process.communicate(timeout=timeout_s)
        except BaseException:  # The test's own limit, or Ctrl-C, ends it too.
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert process.returncode == 0, told[-20_000:] + complaints[-10_000:]
    return told
