"""Options of the commands that speak to Kafka: how brokers are reached, and waited for."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
from pydantic_core import PydanticCustomError

from cli.topology_file import Decorator, Refused
from topology.spelling.problem import Fault
from topology.spelling.values import NS_PER, in_unit

if TYPE_CHECKING:
    from agents.kafka.brokers import Brokers
    from agents.kafka.security import Security


def security(path: str | None) -> Security:
    """From the file of `--kafka` and the environment; `Refused` says what is wrong."""
    from agents.kafka.security import SecurityRefused, read_security

    text = ""
    if path is not None:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
            raise Refused(f"--kafka {path}: {reason}") from error
    try:
        return read_security(text, os.environ)
    except SecurityRefused as refused:
        where = "the environment" if path is None else f"--kafka {path}"
        raise Refused(f"{where}: {refused}") from None


def reached(servers: str, access: Security, wait_s: float = 0.0) -> Brokers:
    """The brokers; `Refused` where none answers, and a word on standard error while they are
    waited for: for some seconds, or as long as `wait_s` where that is given. Blocks."""
    from agents.kafka.brokers import BrokersUnavailable, await_brokers, brokers_at

    def waits(absent: BrokersUnavailable, left_s: float) -> None:
        click.echo(f"waiting for brokers, {left_s:.0f} s more at most: {absent}", err=True)

    try:
        if wait_s:
            return asyncio.run(await_brokers(servers, access, wait_s))
        return brokers_at(servers, access, waits)
    except BrokersUnavailable as error:
        raise Refused(str(error)) from error


def seconds(_: click.Context, option: click.Parameter, text: str) -> float:
    """A callback: a duration with its unit. `Refused` names the option."""
    return duration_ns(option.opts[0], text) / NS_PER["s"]


def duration_ns(option: str, text: str) -> int:
    """A duration with its unit. `Refused` names the option."""
    try:
        return in_unit(text, NS_PER, "5min")
    except PydanticCustomError as error:
        faults: list[Fault] = (error.context or {})["faults"]
        raise Refused(f"{option}: {faults[0].message}; {faults[0].remedy}") from error


def brokers_wait_named(variable: str, default: str) -> Decorator:
    """Return the option --brokers-wait; the parameter is `brokers_wait_s`."""
    return click.option(
        "--brokers-wait",
        "brokers_wait_s",
        envvar=variable,
        metavar="DURATION",
        default=default,
        callback=seconds,
        help="How long brokers that do not answer at the start are waited for.",
    )


brokers_wait_option = brokers_wait_named("INORDER_BROKERS_WAIT", "5min")
