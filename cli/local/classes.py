"""Finds class-data archives, with which a Java process starts in half the time.

Java writes an archive when a process ends. Another process reads it if Java version and class path
are the same. Otherwise the process starts without the archive and says so in one line.
`infra.archives` makes the archives of brokers and Spark for tests.
"""

from __future__ import annotations

import shutil
import zlib
from pathlib import Path


def archive_path(folder: Path) -> Path:
    """Return the path of this machine's archive for the jars in `folder`."""
    java = Path(shutil.which("java") or "java").resolve()
    changed_ns = java.stat().st_mtime_ns if java.exists() else 0
    return folder / f"classes-{zlib.crc32(f'{java} {changed_ns}'.encode()):08x}.jsa"


def read_options(folder: Path) -> list[str]:
    """Return the options with which Java reads the archive; empty if there is no archive."""
    path = archive_path(folder)
    return [f"-XX:SharedArchiveFile={path}"] if path.exists() else []


def write_options(path: Path) -> str:
    """Return the options with which Java writes an archive to `path` as it ends.

    Java would warn of each of the hundreds of classes that it leaves out.
    """
    return f"-XX:ArchiveClassesAtExit={path} -Xlog:disable"
