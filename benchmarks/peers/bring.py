"""Fetch the programs that only the peers need, and build our compiled core as users install it.

The peers need a Python environment and jars, which are not in the project's locks. The environment
is made from `requirements.txt` with the current Python. Maven fetches the jars of Kafka Streams,
and `javac` compiles its processor. Both are stored in the project's cache. They are made once, and
again if their sources have changed. If one is unavailable, PeerUnavailable says why, and the
benchmark prints this line and leaves that peer out.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from cli.local.lock import lock_file
from cli.local.maven import Jars, JarsUnavailable, cache_folder

HERE: Final = Path(__file__).parent
REQUIREMENTS: Final = HERE / "requirements.txt"
SOURCE: Final = HERE / "kafka_streams" / "HoldBack.java"
JARS: Final = Jars(HERE / "kafka_streams" / "pom.xml", "kafka-streams-4.1.0")
INSTALL_TIMEOUT_S: Final = 600.0
COMPILE_TIMEOUT_S: Final = 120.0
CORE_TIMEOUT_S: Final = 1_200.0
ROOT: Final = HERE.parents[1]


class PeerUnavailable(RuntimeError):
    """The error for a peer that is unavailable here; its text says why."""


def python() -> Path:
    """Return the interpreter of the environment with the Python peers, made if needed."""
    folder = cache_folder() / f"peers-{sys.version_info.major}.{sys.version_info.minor}"
    if not _is_made_of(folder, REQUIREMENTS):
        with lock_file(cache_folder() / f"{folder.name}.lock", INSTALL_TIMEOUT_S):
            if not _is_made_of(folder, REQUIREMENTS):
                _install(folder)
    return folder / "bin" / "python"


def _install(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    _call([sys.executable, "-m", "venv", str(folder)], INSTALL_TIMEOUT_S)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet"]
    _call([*pip, "install", "--requirement", str(REQUIREMENTS)], INSTALL_TIMEOUT_S)
    # This file is copied last, since it marks the environment as complete.
    shutil.copyfile(REQUIREMENTS, folder / REQUIREMENTS.name)


def build_core() -> Path:
    """Build the compiled core as in a wheel, and return its tree; the first call takes minutes."""
    _call([str(ROOT / "infra" / "compiled_tree.sh"), sys.executable], CORE_TIMEOUT_S)
    return ROOT / "build" / "compiled"


def compile_hold_back() -> str:
    """Return the class path of the processor on Kafka Streams, whose class is `HoldBack`."""
    return compile_program(JARS, SOURCE)


def compile_program(jars: Jars, source: Path) -> str:
    """Compile a program of one source file, and return its class path with the jars it needs."""
    if absent := jars.missing():
        raise PeerUnavailable(absent)
    if shutil.which("javac") is None:
        raise PeerUnavailable("javac not found; install a JDK (Debian: openjdk-17-jdk-headless)")
    try:
        folder = jars.fetch_folder()
    except (JarsUnavailable, TimeoutError) as failed:
        raise PeerUnavailable(str(failed)) from failed
    classes = folder / "classes"
    path = f"{folder}/*"
    if not _is_made_of(classes, source):
        with lock_file(cache_folder() / f"{folder.name}.lock", COMPILE_TIMEOUT_S):
            if not _is_made_of(classes, source):
                shutil.rmtree(classes, ignore_errors=True)
                command = [
                    "javac",
                    "-proc:none",
                    "-Xlint:all",
                    "-cp",
                    path,
                    "-d",
                    str(classes),
                    str(source),
                ]
                _call(command, COMPILE_TIMEOUT_S)
                shutil.copyfile(source, classes / source.name)
    return f"{classes}:{path}"


def _is_made_of(folder: Path, origin: Path) -> bool:
    copy = folder / origin.name
    return copy.exists() and copy.read_bytes() == origin.read_bytes()


def _call(command: list[str], timeout_s: float) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as failed:
        raise PeerUnavailable(f"{command[0]}: {failed}") from failed
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise PeerUnavailable(f"{' '.join(command)} failed: {said[-1] if said else 'no output'}")
