"""The broker's jars, from Maven (`cli.local.maven`); `pom.xml` beside this file names them.

They land in `.cache/kafka-<version>/`, about 55 MB.
"""

from __future__ import annotations

from pathlib import Path

from cli.local.maven import Jars

VERSION = "4.1.0"
HERE = Path(__file__).parent
LOG_SETTINGS = HERE / "log4j2.yaml"

_JARS = Jars(HERE / "pom.xml", f"kafka-{VERSION}")


def missing() -> str | None:
    """Why a broker cannot run from jars here; None if it can."""
    return _JARS.missing()


def classpath() -> str:
    """What `java -cp` wants; brings the jars first where they are not there yet."""
    return str(_JARS.brought() / "*")
