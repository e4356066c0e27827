"""`inorder topics create`: declare every topic the topology needs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Final

import click

from agents.kafka import growth
from agents.kafka.declared import declared
from agents.kafka.topics import Outcome, TopicsUnavailable, create
from cli.as_json import json_option
from cli.kafka_options import kafka_option, reached, security
from cli.topology_file import brokers_option, load, topology_option

SAFE_COPIES: Final = 3


@click.group("topics")
def command() -> None:
    """Make the topics that a topology needs."""


@command.command("create")
@topology_option
@brokers_option
@kafka_option
@click.option(
    "--grow",
    is_flag=True,
    help="Also give changelogs the partitions that their inputs have got since. Restart all"
    " workers then.",
)
@json_option("TOPICS_CREATE")
def create_command(
    topology_path: str, brokers: str, kafka_path: str | None, grow: bool, as_json: bool
) -> None:
    """Make every topic the topology needs; those that exist are left as they are."""
    topology = load(topology_path)
    access = security(kafka_path)
    reached(brokers, access)
    try:
        outcomes = create(declared(topology), brokers, topology.topics.replication, access)
        grown = growth.grow(topology, brokers, access) if grow else []
    except TopicsUnavailable as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        told = {
            "topics": [*map(asdict, outcomes)],
            "grown": [*map(asdict, grown)],
            "cut": topology.cut.why,
        }
        click.echo(json.dumps(told))
        return
    for outcome in outcomes:
        click.echo(f"{'created' if outcome.created else 'exists '}  {outcome.name}")
        for difference in outcome.differences:
            click.echo(f"         differs: {difference}", err=True)
    for each in grown:
        click.echo(f"grown    {each.name} to {each.partitions} partitions")
    click.echo(topology.cut.why, err=True)
    if topology.topics.replication is None and (thin := thinly_copied(outcomes)):
        click.echo(thin, err=True)


def thinly_copied(outcomes: list[Outcome]) -> str | None:
    """What to say where the brokers could keep more copies than their default asks for."""
    copies = min(outcome.copies for outcome in outcomes)
    brokers = outcomes[0].brokers
    if copies >= min(brokers, SAFE_COPIES):
        return None
    return (
        f"by the brokers' default there are topics with {copies} copies on {brokers} brokers, and"
        " what is lost with a broker is lost: write `topics: {replication: 3}` before topics are"
        " made, to have more"
    )
