"""Options that commands of Spark share."""

from __future__ import annotations

from typing import Final

import click

TO: Final = ("parquet", "iceberg", "delta", "jdbc", "kafka", "console")
POSTGRES: Final = "org.postgresql.Driver"

master_option = click.option(
    "--master", metavar="URL", help="Spark's; without: local, or as spark-submit says."
)
conf_option = click.option(
    "--conf", multiple=True, metavar="NAME=VALUE", help="A setting of Spark."
)
