"""The broker's jars, from Maven, resolved once into the project's cache.

`pom.xml` beside this file names them. They land in `.cache/kafka-<version>/` at
the project's root (or below `$INORDER_CACHE`), about 55 MB; processes that ask
at the same time wait for the first. A changed `pom.xml` resolves them anew.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from infra.lock import exclusive

VERSION = "4.1.0"
RESOLVE_TIMEOUT_S = 600.0
HERE = Path(__file__).parent
POM = HERE / "pom.xml"
LOG_SETTINGS = HERE / "log4j2.yaml"


class JarsUnavailable(RuntimeError):
    """Maven could not bring the jars; the text says why."""


def missing() -> str | None:
    """Why a broker cannot run from jars here; None if it can."""
    absent = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    if not absent or (absent == ["mvn"] and _is_resolved(cache())):
        return None
    return f"{' and '.join(absent)} not found; run infra/ensure.sh or install Java 17 and Maven"


def cache() -> Path:
    root = os.environ.get("INORDER_CACHE")
    base = Path(root) if root else HERE.parents[1] / ".cache"
    return base / f"kafka-{VERSION}"


def classpath() -> str:
    """What `java -cp` wants; brings the jars first where they are not there yet."""
    folder = cache()
    if not _is_resolved(folder):
        with exclusive(folder.with_suffix(".lock"), RESOLVE_TIMEOUT_S):
            if not _is_resolved(folder):
                _resolve(folder)
    return str(folder / "*")


def _is_resolved(folder: Path) -> bool:
    mark = folder / "pom.xml"
    return mark.exists() and mark.read_bytes() == POM.read_bytes()


def _resolve(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = [
        "mvn",
        "--batch-mode",
        "--quiet",
        f"--file={POM}",
        "dependency:copy-dependencies",
        f"-DoutputDirectory={folder}",
        "-DincludeScope=runtime",
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=RESOLVE_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise JarsUnavailable(f"Maven could not resolve {POM}:\n{done.stdout}{done.stderr}")
    shutil.copyfile(POM, folder / "pom.xml")  # last: it says that all is there
