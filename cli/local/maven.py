"""Fetches jars from Maven, once, into the project's cache.

A `pom.xml` names the jars. They are stored in `<name>/` below `$INORDER_CACHE`. Without that
variable, the cache is `.cache` in a checkout and the user's own cache elsewhere. If several
processes need the same jars, one fetches them and the others wait. If a `pom.xml` changes, its jars
are fetched again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from cli.local.lock import exclusive

RESOLVE_TIMEOUT_S = 600.0
MARK = "resolved.txt"
ROOT = Path(__file__).parents[2]


class JarsUnavailable(RuntimeError):
    """Maven could not fetch the jars; the message states why."""


class Jars:
    """The jars of `pom`, in the cache under `name`.

    `properties` replace those of the pom. A set of jars with other properties needs another name.
    """

    def __init__(self, pom: Path, name: str, properties: Mapping[str, str] | None = None) -> None:
        self._pom = pom
        self._name = name
        self._properties = [f"-D{key}={value}" for key, value in (properties or {}).items()]

    def missing(self) -> str | None:
        """Return a sentence about the programs that are not installed, or None if all are."""
        absent = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
        if not absent or (absent == ["mvn"] and self._is_resolved()):
            return None
        return f"{' and '.join(absent)} not found; install Java 17 and Maven"

    def folder(self) -> Path:
        return cache() / self._name

    def brought(self) -> Path:
        """Return the folder of the jars; fetch them first if they are absent."""
        folder = self.folder()
        if not self._is_resolved():
            with exclusive(folder.parent / f"{self._name}.lock", RESOLVE_TIMEOUT_S):
                if not self._is_resolved():
                    self._resolve(folder)
        return folder

    def _is_resolved(self) -> bool:
        mark = self.folder() / MARK
        return mark.exists() and mark.read_text(encoding="utf-8") == self._marked()

    def _marked(self) -> str:
        return "\n".join([self._pom.read_text(encoding="utf-8"), *self._properties])

    def _resolve(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        command = [
            "mvn",
            "--batch-mode",
            "--quiet",
            f"--file={self._pom}",
            "dependency:copy-dependencies",
            f"-DoutputDirectory={folder}",
            "-DincludeScope=runtime",
            *self._properties,
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=RESOLVE_TIMEOUT_S, check=False
        )
        if done.returncode:
            raise JarsUnavailable(
                f"Maven could not resolve {self._pom}:\n{done.stdout}{done.stderr}"
            )
        # The mark is written last, because it states that the jars are complete.
        (folder / MARK).write_text(self._marked(), encoding="utf-8")


def cache() -> Path:
    """Return the folder of the project's cache, which the module's text describes."""
    if named := os.environ.get("INORDER_CACHE"):
        return Path(named)
    if (ROOT / "Makefile").exists():
        return ROOT / ".cache"
    users = os.environ.get("XDG_CACHE_HOME")
    return (Path(users) if users else Path.home() / ".cache") / "inorder"
