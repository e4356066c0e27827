"""Archives of Java's classes: with one, a Java process starts in half the time.

Java writes an archive when a process ends, and reads it in a process of the same Java and the same
class path. Elsewhere it goes on without, and says so in one line. `infra.archives` makes those of
the brokers and of Spark for tests.
"""

from __future__ import annotations

import shutil
import zlib
from pathlib import Path


def archive(folder: Path) -> Path:
    """Where the archive of this machine's Java is, for the jars in `folder`."""
    java = Path(shutil.which("java") or "java").resolve()
    changed_ns = java.stat().st_mtime_ns if java.exists() else 0
    return folder / f"classes-{zlib.crc32(f'{java} {changed_ns}'.encode()):08x}.jsa"


def reading(folder: Path) -> list[str]:
    """The options with which Java reads the archive; none where there is no archive."""
    path = archive(folder)
    return [f"-XX:SharedArchiveFile={path}"] if path.exists() else []


def writing(path: Path) -> str:
    """The option with which Java writes an archive there as it ends."""
    return f"-XX:ArchiveClassesAtExit={path}"
