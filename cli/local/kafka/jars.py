"""The broker's jars, from Maven (`cli.local.maven`); `pom.xml` beside this file names them.

They land in `.cache/kafka-<version>/`, about 55 MB for each version.
"""

from __future__ import annotations

from pathlib import Path

from cli.local.maven import Jars

VERSION = "4.1.0"
OLDER = "3.9.1"
"""The last line of brokers before 4; what transactions promise is tried on both."""

HERE = Path(__file__).parent
LOG_SETTINGS = HERE / "log4j2.yaml"


def missing() -> str | None:
    """Why a broker cannot run from jars here; None if it can."""
    return _jars(VERSION).missing()


def classpath(version: str = VERSION) -> str:
    """What `java -cp` wants; brings the jars first where they are not there yet."""
    return str(_jars(version).brought() / "*")


def folder(version: str = VERSION) -> Path:
    """Where they lie, once they have been brought."""
    return _jars(version).folder()


def _jars(version: str) -> Jars:
    return Jars(HERE / "pom.xml", f"kafka-{version}", {"kafka.version": version})
