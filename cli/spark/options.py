"""Options that commands of Spark share, and what they spell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from cli.topology_file import Refused

TO: Final = ("parquet", "iceberg", "delta", "jdbc", "kafka", "console")
POSTGRES: Final = "org.postgresql.Driver"
WINDOW: Final = "tumbling 10s"
KEYS: Final = ("source",)

catalog_option = click.option(
    "--catalog",
    metavar="URL",
    help="For Iceberg: jdbc:postgresql://HOST/DATABASE, or http://HOST:PORT of a REST catalog."
    " Default: none but the folders below --out.",
)
_MASTER: Final = click.option(
    "--master", metavar="URL", help="Spark's. Default: local[*,4], or as spark-submit names it."
)
_CONF: Final = click.option(
    "--conf", multiple=True, metavar="NAME=VALUE", help="A setting of Spark."
)


def session_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--master` and `--conf`, which `settings_of` reads."""
    return _MASTER(_CONF(command))


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


def settings_of(master: str | None, conf: Sequence[str]) -> dict[str, str]:
    """Settings of Spark that `--master` and `--conf` name."""
    settings = {}
    for pair in conf:
        name, _, value = pair.partition("=")
        if not (name and value):
            raise Refused(f"--conf {pair}: write NAME=VALUE, like spark.driver.memory=2g")
        settings[name] = value
    return settings if master is None else {**settings, "spark.master": master}


def window_of(text: str, option: str) -> Any:
    from pydantic import ValidationError

    from topology.config import QueryConfig

    try:
        query = QueryConfig.model_validate({"window": text, "aggregate": {"n": "count()"}})
    except ValidationError as error:
        raise Refused(f"{option} {text}: {error.errors()[0]['msg']}") from None
    return query.window


def length_of(text: str, option: str) -> int:
    """A length of time with its unit, in ns; Refused names the option."""
    from pydantic_core import PydanticCustomError

    from topology.spelling.values import length_ns

    try:
        return length_ns(text)
    except PydanticCustomError as error:
        (fault, *_) = (error.context or {})["faults"]
        raise Refused(f"{option}: {fault.message}; {fault.remedy}") from None
