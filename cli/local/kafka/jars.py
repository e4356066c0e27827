"""Fetches the broker's jars, which the `pom.xml` in this folder names, from Maven.

The jars are stored in `.cache/kafka-<version>/` (`cli.local.maven`), about 55 MB per version.
"""

from __future__ import annotations

from pathlib import Path

from cli.local.maven import Jars

VERSION = "4.1.0"
OLDER = "3.9.1"
"""The last release before version 4; transactions are tested with both releases."""

HERE = Path(__file__).parent
LOG_SETTINGS = HERE / "log4j2.yaml"


def missing() -> str | None:
    """Return why a broker cannot run from jars here; None if it can."""
    return jars_of_version(VERSION).missing()


def classpath(version: str = VERSION) -> str:
    """Return the class path for `java -cp`; fetch the jars first if they are absent."""
    return str(jars_of_version(version).fetch_folder() / "*")


def folder(version: str = VERSION) -> Path:
    """Return the folder of the jars, which exists once they have been fetched."""
    return jars_of_version(version).folder()


def jars_of_version(version: str = VERSION) -> Jars:
    """Return the set of jars of a release."""
    return Jars(HERE / "pom.xml", f"kafka-{version}", {"kafka.version": version})
