"""Defines the options that Spark commands share, and parses their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from cli.option_group import add_options
from cli.topology_file import Refused, brokers_option, kafka_option, topology_option

FORMATS: Final = ("parquet", "iceberg", "delta")
WINDOW: Final = "tumbling 10s"
KEYS: Final = ("source",)

catalog_option = click.option(
    "--catalog",
    metavar="URL",
    help="For Iceberg: jdbc:postgresql://HOST/DATABASE, or http://HOST:PORT of a "
    "REST catalog. Default: the folders below --out.",
)
out_option = click.option(
    "--out", required=True, metavar="DIR", help="Folder of the tables and of the state."
)
schema_option = click.option(
    "--schema",
    metavar="DDL",
    help="Types of the fields of JSON payloads: 'player INT, v DOUBLE'.",
)
session_options = add_options(
    (
        click.option(
            "--master",
            metavar="URL",
            help="Master of Spark. Default: local[*,4], or that of spark-submit.",
        ),
        click.option("--conf", multiple=True, metavar="NAME=VALUE", help="A setting of Spark."),
    )
)
"""The options that `settings_of` reads."""


def format_option(command: str) -> Callable[[Any], Any]:
    """Return the option `--format`, as the parameter `form`; its variable contains `command`."""
    return click.option(
        "--format",
        "form",
        envvar=f"INORDER_SPARK_{command}_FORMAT",
        type=click.Choice(FORMATS),
        default="parquet",
        help="Format of the tables.",
    )


def stream_options(command: str, every: str, max_per_batch: int) -> Callable[[Any], Any]:
    """Return a decorator with the options of a query; `every` and `max_per_batch` are defaults."""
    return add_options(
        (
            topology_option,
            brokers_option,
            kafka_option,
            out_option,
            format_option(command),
            catalog_option,
            click.option(
                "--checkpoint",
                metavar="DIR",
                help="Folder of the checkpoint. Default: below --out.",
            ),
            click.option(
                "--until-caught-up",
                is_flag=True,
                help="Continue from the checkpoint, and end at the present end of the topics.",
            ),
            click.option("--every", default=every, help="Time between batches."),
            click.option(
                "--max-per-batch",
                type=click.IntRange(min=1),
                default=max_per_batch,
                help="Most records of a batch.",
            ),
        )
    )


def require_iceberg(catalog: str | None, form: str) -> None:
    if catalog is not None and form != "iceberg":
        raise Refused("--catalog is Iceberg's; add --format iceberg, or leave it out")


def settings_of(master: str | None, conf: Sequence[str]) -> dict[str, str]:
    """Return the Spark settings that `--master` and `--conf` name."""
    settings = {}
    for pair in conf:
        name, _, value = pair.partition("=")
        if not (name and value):
            raise Refused(f"--conf {pair}: write NAME=VALUE, like spark.driver.memory=2g")
        settings[name] = value
    return settings if master is None else {**settings, "spark.master": master}


def window_of(text: str, option: str) -> Any:
    from pydantic import ValidationError

    from topology.config import WindowQuery

    try:
        query = WindowQuery.model_validate({"window": text, "aggregate": {"n": "count()"}})
    except ValidationError as error:
        raise Refused(f"{option} {text}: {error.errors()[0]['msg']}") from None
    return query.window
