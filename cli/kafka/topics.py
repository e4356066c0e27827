"""`inorder topics`: make every topic the topology needs, or say which rights its stages need."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from typing import Final

import click

from agents.kafka.compacted import CompactedInput, refuse_compacted
from agents.kafka.declared import declared
from agents.kafka.rights import Right, rights
from agents.kafka.stage_topics import upstream_inputs
from agents.kafka.topics import (
    Grown,
    Outcome,
    TopicsUnavailable,
    create,
    grow_changelogs,
    narrow_changelogs,
)
from cli.as_json import json_option
from cli.kafka_options import brokers_wait_named, reached, security
from cli.topology_file import (
    Refused,
    brokers_option,
    kafka_option,
    load,
    stage_option,
    topology_option,
)
from topology.config import Topology

SAFE_COPIES: Final = 3


@click.group("topics")
def command() -> None:
    """The topics that a topology needs, and the rights to them."""


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
@brokers_wait_named("INORDER_TOPICS_CREATE_BROKERS_WAIT", "0s")
@json_option("TOPICS_CREATE")
def create_command(
    topology_path: str,
    brokers: str,
    kafka_path: str | None,
    grow: bool,
    brokers_wait_s: float,
    as_json: bool,
) -> None:
    """Make every topic the topology needs; those that exist are left as they are. Brokers are
    waited for some seconds, or for --brokers-wait."""
    topology = load(topology_path)
    access = security(kafka_path)
    there = reached(brokers, access, brokers_wait_s)
    try:
        refuse_compacted(there, upstream_inputs(topology))
    except CompactedInput as error:
        raise Refused(str(error)) from error
    try:
        outcomes = create(declared(topology), brokers, topology.topics.replication, access)
        grown = grow_changelogs(topology, brokers, access) if grow else []
        narrow = narrow_changelogs(topology, brokers, access)
    except TopicsUnavailable as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        answer = {
            "topics": [*map(asdict, outcomes)],
            "grown": [*map(asdict, grown)],
            "cut": topology.cut.why,
        }
        click.echo(json.dumps(answer))
    else:
        _report(topology, outcomes, grown)
    if narrow:
        lacking = ", ".join(f"{each.name} ({each.partitions} wanted)" for each in narrow)
        raise Refused(
            "changelogs have fewer partitions than their inputs, and no worker starts so:"
            f" {lacking}; run `inorder topics create --grow`, then restart all workers"
            " (docs/operate/change.md, Add partitions to an input)"
        )


def _report(topology: Topology, outcomes: list[Outcome], grown: list[Grown]) -> None:
    for outcome in outcomes:
        click.echo(f"{'created' if outcome.created else 'exists '}  {outcome.name}")
        for difference in outcome.differences:
            click.echo(f"         differs: {difference}", err=True)
    for each in grown:
        click.echo(f"grown    {each.name} to {each.partitions} partitions")
    click.echo(topology.cut.why, err=True)
    if topology.topics.replication is None and (thin := thinly_copied(outcomes)):
        click.echo(thin, err=True)


@command.command("acls")
@topology_option
@stage_option
@click.option(
    "--principal",
    default="User:inorder",
    help="Who runs the stages; {stage} is replaced by a stage's name, for a principal each.",
)
@json_option("TOPICS_ACLS")
def acls_command(topology_path: str, names: tuple[str, ...], principal: str, as_json: bool) -> None:
    """Say the least rights that the stages need, a line of kafka-acls.sh each.

    Add --bootstrap-server and --add to each. Sources, sinks and readers: docs/operate/secure.md.
    """
    topology = load(topology_path)
    known = [each.name for each in topology.stages]
    if unknown := [name for name in names if name not in known]:
        raise Refused(f"no stage is named {unknown[0]!r}; there are {', '.join(known)}")
    found = [
        (principal.replace("{stage}", each.name.replace("+", "-")), right)
        for each in topology.stages
        if not names or each.name in names
        for right in rights(topology, each)
    ]
    if as_json:
        listed = [{"principal": who, **right._asdict()} for who, right in dict.fromkeys(found)]
        click.echo(json.dumps(listed))
        return
    for line in dict.fromkeys(_acl_command(who, right) for who, right in found):
        click.echo(line)


def _acl_command(principal: str, right: Right) -> str:
    words = ["kafka-acls.sh", "--allow-principal", principal]
    for operation in right.operations:
        words += ["--operation", operation]
    words += [f"--{right.kind}", right.name]
    if right.prefixed:
        words += ["--resource-pattern-type", "prefixed"]
    return shlex.join(words)


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
