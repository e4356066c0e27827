"""Jars from Maven, resolved once into the project's cache.

A `pom.xml` names them. They land in `<name>/` below `$INORDER_CACHE`; where that is not set, below
`.cache` in a checkout and below the user's own cache elsewhere. Processes that ask at the same time
wait for the first. A changed `pom.xml` resolves them anew.
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
    """Maven could not bring the jars; the text says why."""


class Jars:
    """The jars of `pom`, in the cache under `name`, which differs where the `properties` do that
    take the place of the pom's own."""

    def __init__(self, pom: Path, name: str, properties: Mapping[str, str] | None = None) -> None:
        self._pom = pom
        self._name = name
        self._properties = [f"-D{key}={value}" for key, value in (properties or {}).items()]

    def missing(self) -> str | None:
        """Which programs are not there to bring and run them; None if all is there."""
        absent = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
        if not absent or (absent == ["mvn"] and self._is_resolved()):
            return None
        return f"{' and '.join(absent)} not found; install Java 17 and Maven"

    def folder(self) -> Path:
        return cache() / self._name

    def brought(self) -> Path:
        """The folder that holds them; brings them first where they are not there yet."""
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
        # Last: it says that all is there.
        (folder / MARK).write_text(self._marked(), encoding="utf-8")


def cache() -> Path:
    """The folder of what is fetched once and kept; see the module's docstring."""
    if named := os.environ.get("INORDER_CACHE"):
        return Path(named)
    if (ROOT / "Makefile").exists():
        return ROOT / ".cache"
    users = os.environ.get("XDG_CACHE_HOME")
    return (Path(users) if users else Path.home() / ".cache") / "inorder"
