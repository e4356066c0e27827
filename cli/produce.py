"""`inorder produce`: publish recorded events with the header contract, in file order."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal

import click

from cli.input_file import InputError
from cli.progress import counting
from cli.rows import read_rows
from cli.topology_file import Refused, brokers_option, load
from producers.failure import ProducerError
from producers.recorded import Malformed
from producers.replayer import Pace, Replayer

UNREADABLE: Final = 3
MAX_TOLD: Final = 20
"""Malformed rows that are told one by one; the others are counted."""


@click.command("produce")
@brokers_option
@click.option("--topic", required=True, help="Where to publish.")
@click.option("--rate", type=float, help="Events per second.")
@click.option("--speed", type=float, help="Multiple of the recorded arrival times.")
@click.option(
    "--topology", "topology_path", help="For its header names, and how records are keyed."
)
@click.argument("events", default="-", metavar="[EVENTS | -]")
def command(
    brokers: str,
    topic: str,
    rate: float | None,
    speed: float | None,
    topology_path: str | None,
    events: str,
) -> None:
    """Publish EVENTS (as `inorder replay` reads them); default: as fast as it goes."""
    try:
        pace = Pace(rate, speed)
    except ValueError as error:
        raise Refused(str(error)) from error
    malformed: list[Malformed] = []
    try:
        with counting("published", sys.stderr) as advance:
            done = _replayer(brokers, topic, pace, topology_path, malformed).publish(
                _rows(events, advance, malformed)
            )
    except InputError as error:
        failure = click.ClickException(str(error))
        failure.exit_code = UNREADABLE
        raise failure from error
    except ProducerError as error:
        raise click.ClickException(str(error)) from error
    for row in malformed:
        click.echo(f"row {row.row}: {row.reason}: {row.detail}", err=True)
    click.echo(
        f"published {done.delivered} records in {done.seconds:.1f} s"
        f" ({done.malformed} malformed rows and {done.clock} clock rows left out)",
        err=True,
    )


def _replayer(
    brokers: str, topic: str, pace: Pace, topology_path: str | None, malformed: list[Malformed]
) -> Replayer:
    def note(row: Malformed) -> None:
        if len(malformed) < MAX_TOLD:
            malformed.append(row)

    if topology_path is None:
        return Replayer(brokers, topic, pace=pace, on_malformed=note)
    topology = load(topology_path)
    headers = next(
        (stream.headers for stream in topology.streams.values() if stream.input == topic), None
    )
    if headers is None:
        raise Refused(f"--topic {topic}: no stream of {topology_path} reads it")
    key_by: Literal["source", "stream"] = "stream" if topology.fused else "source"
    return Replayer(brokers, topic, pace=pace, key_by=key_by, headers=headers, on_malformed=note)


def _rows(
    events: str, advance: Callable[[int], None], malformed: list[Malformed]
) -> Iterator[dict[str, Any]]:
    for row in read_rows(events):
        advance(1)
        if row.fault is None:
            yield row.values
        elif len(malformed) < MAX_TOLD:
            malformed.append(Malformed(row.number, row.fault.reason, row.fault.detail))
