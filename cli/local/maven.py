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
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from cli.local.lock import lock_file

RESOLVE_TIMEOUT_S = 600.0
LOCK_TIMEOUT_S = 2 * RESOLVE_TIMEOUT_S
"""The time to wait for another process that fetches jars."""

MARK = "resolved.txt"
REACTOR = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>inorder.infra</groupId>
  <artifactId>jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <modules>{}</modules>
  <build>
    <plugins>
      <plugin>
        <groupId>org.apache.maven.plugins</groupId>
        <artifactId>maven-dependency-plugin</artifactId>
        <version>3.8.1</version>
      </plugin>
    </plugins>
  </build>
</project>
"""
ROOT = Path(__file__).parents[2]


class JarsUnavailable(RuntimeError):
    """Maven could not fetch the jars; the message states why."""


class Jars:
    """The jars of `pom`, in the cache under `name`.

    `properties` replace those of the pom. A set of jars with other properties needs another name.
    """

    def __init__(self, pom: Path, name: str, properties: Mapping[str, str] | None = None) -> None:
        self.pom = pom
        self.name = name
        self.properties = dict(properties or {})

    def missing(self) -> str | None:
        """Return a sentence about the programs that are not installed, or None if all are."""
        absent = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
        if not absent or (absent == ["mvn"] and self.is_resolved()):
            return None
        return f"{' and '.join(absent)} not found; install Java 17 and Maven"

    def folder(self) -> Path:
        return cache_folder() / self.name

    def fetch_folder(self) -> Path:
        """Return the folder of the jars; fetch them first if they are absent."""
        fetch(self)
        return self.folder()

    def artifact(self) -> str:
        """Return the name that the pom gives itself."""
        name = ET.parse(self.pom).findtext("{*}artifactId")
        assert name is not None, f"{self.pom} has no artifactId"
        return name

    def is_resolved(self) -> bool:
        """Return whether the jars are there, as the pom names them."""
        mark = self.folder() / MARK
        return mark.exists() and mark.read_text(encoding="utf-8") == self._make_mark()

    def _make_mark(self) -> str:
        return "\n".join([self.pom.read_text(encoding="utf-8"), *_options(self.properties)])

    def take(self, fetched: Path) -> None:
        """Move the fetched jars into the cache."""
        folder = self.folder()
        shutil.rmtree(folder, ignore_errors=True)
        fetched.replace(folder)
        # The mark is written last, because it states that the jars are complete.
        (folder / MARK).write_text(self._make_mark(), encoding="utf-8")


def fetch(*sets: Jars) -> None:
    """Fetch the sets of jars that are absent, with one Maven process for all.

    Raises JarsUnavailable, and ValueError if two sets have different values of a property.
    """
    if all(jars.is_resolved() for jars in sets):
        return
    cache_folder().mkdir(parents=True, exist_ok=True)
    with lock_file(cache_folder() / "jars.lock", LOCK_TIMEOUT_S):
        absent = [jars for jars in sets if not jars.is_resolved()]
        if absent:
            scratch = cache_folder().resolve() / "jars.part"
            shutil.rmtree(scratch, ignore_errors=True)  # A killed process may have left it.
            scratch.mkdir()
            try:
                _resolve(absent, scratch)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)


def _resolve(sets: Sequence[Jars], scratch: Path) -> None:
    """Run Maven once, on a pom that has the poms of the sets as its modules."""
    properties = dict(each for jars in sets for each in jars.properties.items())
    if any(jars.properties.items() - properties.items() for jars in sets):
        raise ValueError("two sets of jars have different values of a property")
    # Maven resolves `..` in the file system, so no part of the path may be a link.
    poms = (os.path.relpath(jars.pom.resolve(), scratch) for jars in sets)
    modules = "".join(f"<module>{pom}</module>" for pom in poms)
    (scratch / "pom.xml").write_text(REACTOR.format(modules), encoding="utf-8")
    command = [
        "mvn",
        "--batch-mode",
        "--quiet",
        f"--file={scratch / 'pom.xml'}",
        "dependency:copy-dependencies",
        f"-DoutputDirectory={scratch}/${{project.artifactId}}",
        "-DincludeScope=runtime",
        *_options(properties),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=RESOLVE_TIMEOUT_S, check=False
    )
    if done.returncode:
        names = ", ".join(str(jars.pom) for jars in sets)
        raise JarsUnavailable(f"Maven could not resolve {names}:\n{done.stdout}{done.stderr}")
    for jars in sets:
        jars.take(scratch / jars.artifact())


def _options(properties: Mapping[str, str]) -> list[str]:
    return [f"-D{key}={value}" for key, value in properties.items()]


def cache_folder() -> Path:
    """Return the folder of the project's cache, which the module's text describes."""
    if named := os.environ.get("INORDER_CACHE"):
        return Path(named)
    if (ROOT / "Makefile").exists():
        return ROOT / ".cache"
    users = os.environ.get("XDG_CACHE_HOME")
    return (Path(users) if users else Path.home() / ".cache") / "inorder"
