"""What the peers need that inorder does not: an environment of Python, and jars; and our core as
users install it, compiled.

Neither is in the project's locks. The environment is made of `requirements.txt` with the Python
at hand, the jars of Kafka Streams come by Maven and its processor is compiled by `javac`; both lie
in the project's cache, are made once, and anew where what they are made of has changed. Where one
cannot be had, PeerUnavailable says why, and the benchmark leaves that peer out with this line.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from cli.local.lock import exclusive
from cli.local.maven import Jars, JarsUnavailable, cache

HERE: Final = Path(__file__).parent
REQUIREMENTS: Final = HERE / "requirements.txt"
SOURCE: Final = HERE / "kafka_streams" / "HoldBack.java"
JARS: Final = Jars(HERE / "kafka_streams" / "pom.xml", "kafka-streams-4.1.0")
INSTALL_TIMEOUT_S: Final = 600.0
COMPILE_TIMEOUT_S: Final = 120.0
CORE_TIMEOUT_S: Final = 1_200.0
ROOT: Final = HERE.parents[1]


class PeerUnavailable(RuntimeError):
    """A peer cannot be had here; the text says why."""


def python() -> Path:
    """The interpreter of the environment that has the peers in Python."""
    folder = cache() / f"peers-{sys.version_info.major}.{sys.version_info.minor}"
    if not _is_made_of(folder, REQUIREMENTS):
        with exclusive(cache() / f"{folder.name}.lock", INSTALL_TIMEOUT_S):
            if not _is_made_of(folder, REQUIREMENTS):
                _install(folder)
    return folder / "bin" / "python"


def _install(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    _called([sys.executable, "-m", "venv", str(folder)], INSTALL_TIMEOUT_S)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet"]
    _called([*pip, "install", "--requirement", str(REQUIREMENTS)], INSTALL_TIMEOUT_S)
    shutil.copyfile(REQUIREMENTS, folder / REQUIREMENTS.name)  # last: it says that all is there


def compiled_core() -> Path:
    """The tree in which the core is compiled, as it is in a wheel; minutes, the first time."""
    _called([str(ROOT / "infra" / "compiled_tree.sh"), sys.executable], CORE_TIMEOUT_S)
    return ROOT / "build" / "compiled"


def hold_back() -> str:
    """The class path of the processor on Kafka Streams, whose class is `HoldBack`."""
    return compiled(JARS, SOURCE)


def compiled(jars: Jars, source: Path) -> str:
    """The class path of a program of one source, with the jars that it needs."""
    if absent := jars.missing():
        raise PeerUnavailable(absent)
    if shutil.which("javac") is None:
        raise PeerUnavailable("javac not found; install a JDK (Debian: openjdk-17-jdk-headless)")
    try:
        folder = jars.brought()
    except (JarsUnavailable, TimeoutError) as failed:
        raise PeerUnavailable(str(failed)) from failed
    classes = folder / "classes"
    path = f"{folder}/*"
    if not _is_made_of(classes, source):
        with exclusive(cache() / f"{folder.name}.lock", COMPILE_TIMEOUT_S):
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
                _called(command, COMPILE_TIMEOUT_S)
                shutil.copyfile(source, classes / source.name)
    return f"{classes}:{path}"


def _is_made_of(folder: Path, origin: Path) -> bool:
    copy = folder / origin.name
    return copy.exists() and copy.read_bytes() == origin.read_bytes()


def _called(command: list[str], timeout_s: float) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as failed:
        raise PeerUnavailable(f"{command[0]}: {failed}") from failed
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise PeerUnavailable(f"{' '.join(command)} failed: {said[-1] if said else 'no word'}")
