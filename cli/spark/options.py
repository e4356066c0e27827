"""Options that commands of Spark share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

TO: Final = ("parquet", "iceberg", "delta", "jdbc", "kafka", "console")
POSTGRES: Final = "org.postgresql.Driver"

master_option = click.option(
    "--master", metavar="URL", help="Spark's; without: local, or as spark-submit says."
)
conf_option = click.option(
    "--conf", multiple=True, metavar="NAME=VALUE", help="A setting of Spark."
)

catalog_option = click.option(
    "--catalog",
    metavar="URL",
    help="For Iceberg: jdbc:postgresql://HOST/DATABASE, or http://HOST:PORT of a REST catalog."
    " Default: none but the folders below --out.",
)


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Where tables go: `--to` and what its kinds want to know."""
    for option in reversed(_OUTPUTS):
        command = option(command)
    return command


_OUTPUTS: Final = (
    click.option(
        "--to",
        multiple=True,
        type=click.Choice(TO),
        default=("parquet",),
        show_default=True,
        help="May be given more than once.",
    ),
    click.option("--to-topic", metavar="TOPIC", help="With --to kafka; it ought to be compacted."),
    click.option(
        "--jdbc-url",
        metavar="URL",
        help="With --to jdbc: jdbc:postgresql://HOST/DATABASE. INORDER_JDBC_USER and"
        " INORDER_JDBC_PASSWORD come from the environment.",
    ),
    click.option("--jdbc-driver", metavar="CLASS", default=POSTGRES, show_default=True),
    catalog_option,
)
