"""Defines the options of commands that connect to Kafka: brokers, security and time to wait."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from cli.durations import duration_ns
from cli.option_group import option_group
from cli.topology_file import brokers_outside, kafka_option, refusing, text_of
from topology.spelling.values import NS_PER

if TYPE_CHECKING:
    from agents.kafka.brokers import Brokers
    from agents.kafka.security import Security


class Kafka(NamedTuple):
    """The brokers that options name ("" if none), and the path of the file of `--kafka`."""

    servers: str
    path: str | None

    @property
    def access(self) -> Security:
        return security(self.path)

    def brokers(self, wait_s: float = 0.0) -> Brokers:
        """Return the brokers once one answers (`connect_brokers`), or raise `Refused`."""
        return connect_brokers(self.servers, self.access, wait_s)

    def why_hidden(self, *topics: str) -> str | None:
        """Return which right to see these topics is refused; None if they just do not exist."""
        from agents.kafka.refused_rights import refusal_to_describe

        return refusal_to_describe(self.brokers(), topics)


def on_kafka(**brokers: Any) -> Callable[[Any], Any]:
    """Return a decorator that adds --brokers, with these settings, and --kafka as `kafka`."""

    def kafka(brokers: str | None, kafka_path: str | None) -> Kafka:
        return Kafka(brokers or "", kafka_path)

    options = (brokers_outside(**brokers), kafka_option)
    return option_group("kafka", kafka, options)


def security(path: str | None) -> Security:
    """Return the security settings from the file of `--kafka` and the environment.

    Raises `Refused`, which explains their faults.
    """
    from agents.kafka.security import SecurityRefused, read_security

    where = "the environment" if path is None else f"--kafka {path}"
    text = "" if path is None else text_of(path, where)
    with refusing(SecurityRefused, at=f"{where}: "):
        return read_security(text, os.environ)


def forget_security() -> None:
    """Remove security settings from the environment, because our own brokers use PLAINTEXT."""
    from agents.kafka.security import without_security

    for name in os.environ.keys() - without_security(os.environ).keys():
        del os.environ[name]


def connect_brokers(servers: str, access: Security, wait_s: float = 0.0) -> Brokers:
    """Return the brokers; raise `Refused` if none answers in time. Blocks.

    The wait lasts some seconds, or `wait_s` if that is not 0. Without `wait_s`, lines on standard
    error report that the command waits.
    """
    from agents.kafka.brokers import BrokersUnavailable, await_brokers, find_brokers

    def report_wait(absent: BrokersUnavailable, left_s: float) -> None:
        click.echo(f"waiting for brokers, at most {left_s:.0f} s more: {absent}", err=True)

    with refusing(BrokersUnavailable):
        if wait_s:
            return asyncio.run(await_brokers(servers, access, wait_s))
        return find_brokers(servers, access, report_wait)


def seconds(_: click.Context, option: click.Parameter, text: str) -> float:
    """Parse an option's duration, with its unit, and return seconds; this is a click callback."""
    return duration_ns(option.opts[0], text) / NS_PER["s"]


brokers_wait_named: Final = partial(
    click.option,
    "--brokers-wait",
    "brokers_wait_s",
    metavar="DURATION",
    callback=seconds,
    help="Time to wait for brokers that do not answer at the start.",
)
brokers_wait_option = brokers_wait_named(envvar="INORDER_BROKERS_WAIT", default="5min")
