"""Fetches the jars that tests need, with one Maven process.

`python -m infra.jars` fetches those of Spark's connector. With the argument `broker`, it also
fetches those of Kafka, and with `lakes` those of Iceberg and Delta tables and of their catalogs.
"""

from __future__ import annotations

import os
import sys

import cli.local.kafka.jars
import cli.spark.jars
from cli.local.maven import JarsUnavailable, fetch


def main(*words: str) -> None:
    sets = [cli.spark.jars.CONNECTOR]
    if "broker" in words:
        sets.append(cli.local.kafka.jars.jars_of_version())
    if "lakes" in words:
        sets += [cli.spark.jars.POSTGRES_DRIVER, *cli.spark.jars.LAKES.values()]
    reasons = [cli.spark.jars.why_refused_release(), *(jars.missing() for jars in sets)]
    if absent := next(filter(None, reasons), None):
        print(absent, file=sys.stderr)
        sys.exit(os.environ.get("CI") == "true")
    try:
        fetch(*sets)
    except JarsUnavailable as failed:
        sys.exit(str(failed))


if __name__ == "__main__":
    main(*sys.argv[1:])
