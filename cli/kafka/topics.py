"""`inorder topics` creates the topics that a topology needs, or prints the rights to them.

It also moves the state in them to other stages.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from typing import TYPE_CHECKING, Final

import click

from agents.kafka import topics
from agents.kafka.brokers import BrokersUnavailable
from agents.kafka.declared import list_needed_topics
from agents.kafka.rights import Right, list_rights
from agents.kafka.stage_topics import list_upstream_inputs
from agents.kafka.topics import CompactedInput, Outcome, refuse_compacted
from cli.as_json import json_option
from cli.command_group import CommandGroup
from cli.kafka_options import Kafka, brokers_wait_named, on_kafka
from cli.signing import master_keys
from cli.topology_file import Refused, failing, load, refusing, stage_option, topology_option
from topology.config import Topology

if TYPE_CHECKING:
    from agents.restore.recut import Move

SAFE_COPIES: Final = 3


@click.group("topics", cls=CommandGroup)
def command() -> None:
    """Create the topics of a topology, print the rights to them, or move the state in them."""


@command.command("create")
@topology_option
@on_kafka()
@click.option(
    "--grow",
    is_flag=True,
    help="Also grow changelogs to the numbers of partitions of their inputs. "
    "Restart all workers afterwards.",
)
@brokers_wait_named(envvar="INORDER_TOPICS_CREATE_BROKERS_WAIT", default="0s")
@json_option("TOPICS_CREATE")
def create_command(
    topology_path: str, kafka: Kafka, grow: bool, brokers_wait_s: float, as_json: bool
) -> None:
    """Create every topic that the topology needs, and leave existing ones as they are."""
    topology = load(topology_path)
    servers, access = kafka.servers, kafka.access
    brokers = kafka.brokers(brokers_wait_s)
    if brokers.is_embedded:
        raise Refused(
            f"{servers} is the embedded broker of `inorder dev`, which creates topics by itself;"
            " for topics as in production, run `inorder dev --broker kafka`"
        )
    with refusing(CompactedInput):
        refuse_compacted(brokers, list_upstream_inputs(topology))
    with failing(BrokersUnavailable):
        outcomes = topics.ensure_topics(
            list_needed_topics(topology), servers, topology.topics.replication, access
        )
        narrow = topics.narrow_changelogs(topology, brokers.topics())
        grown = topics.grow_changelogs(narrow, servers, access) if grow else {}
    if as_json:
        answer = {
            "topics": [outcome._asdict() for outcome in outcomes],
            "grown": [{"name": name, "partitions": count} for name, count in grown.items()],
            "cut": topology.cut.why,
        }
        click.echo(json.dumps(answer))
    else:
        _report(topology, outcomes, grown)
    if narrow and not grow:
        lacking = ", ".join(f"{name} ({count} wanted)" for name, count in narrow.items())
        raise Refused(
            "changelogs have fewer partitions than their inputs, so no worker starts:"
            f" {lacking}; run `inorder topics create --grow`, then restart all workers"
            " (docs/operate/change.md, Add partitions to an input)"
        )


def _report(topology: Topology, outcomes: list[Outcome], grown: dict[str, int]) -> None:
    for outcome in outcomes:
        click.echo(f"{'created' if outcome.created else 'exists '}  {outcome.name}")
        for difference in outcome.differences:
            click.echo(f"         differs: {difference}", err=True)
    for name, count in grown.items():
        click.echo(f"grown    {name} to {count} partitions")
    click.echo(topology.cut.why, err=True)
    if topology.topics.replication is None and (thin := hint_of_few_replicas(outcomes)):
        click.echo(thin, err=True)


@command.command("recut")
@topology_option
@on_kafka()
@click.option("--dry-run", is_flag=True, help="Print what would be moved, and change nothing.")
@json_option("TOPICS_RECUT")
def recut_command(topology_path: str, kafka: Kafka, dry_run: bool, as_json: bool) -> None:
    """Move the state of a drained, stopped application to other `stages` of its file.

    It goes on where it stopped. Nothing else of the file may differ. The command needs the rights
    of all stages, the former ones and the new ones.
    """
    from aiokafka.errors import KafkaError

    from agents.process.stage_process import EXPECTED_FAILURES
    from agents.restore.recut import NotMoved, recut
    from agents.stage.delivery import EndUnanswered

    topology = load(topology_path)
    masters = master_keys(topology, list_upstream_inputs(topology))
    brokers = kafka.brokers()
    try:
        with refusing(NotMoved, *EXPECTED_FAILURES):
            move = asyncio.run(recut(brokers, topology, masters, is_trial=dry_run))
    except EndUnanswered as unanswered:
        raise Refused(
            f"the brokers did not answer whether the state was moved ({unanswered}); run the"
            " command again: `nothing to move` means that it was"
        ) from unanswered
    except (KafkaError, TimeoutError) as failed:
        raise Refused(f"nothing was moved: {failed!r}; run the command again") from failed
    if as_json:
        click.echo(json.dumps(_move_to_json(move, was_moved=not dry_run)))
        return
    if move is None:
        click.echo("nothing to move: no other stages have a state")
        return
    verb = "would move" if dry_run else "moved"
    click.echo(f"{verb} {move.entries} entries: {', '.join(move.was)} -> {', '.join(move.now)}")
    for group, offsets in move.offsets.items():
        for place, offset in offsets.items():
            click.echo(f"{group} reads from offset {offset} of {place.topic}/{place.partition}")


def _move_to_json(move: Move | None, *, was_moved: bool) -> dict[str, object] | None:
    """Return a move as JSON: null if there is nothing to move."""
    if move is None:
        return None
    offsets = [
        {"group": group, "topic": place.topic, "partition": place.partition, "offset": offset}
        for group, places in move.offsets.items()
        for place, offset in places.items()
    ]
    stages = {"was": [*move.was], "now": [*move.now]}
    return {"moved": was_moved, **stages, "entries": move.entries, "offsets": offsets}


@command.command("acls")
@topology_option
@stage_option
@click.option(
    "--principal",
    default="User:inorder",
    help="Principal that runs the stages; {stage} stands for the name of the stage.",
)
@json_option("TOPICS_ACLS")
def acls_command(topology_path: str, names: tuple[str, ...], principal: str, as_json: bool) -> None:
    """Print the least rights that the stages need, one line of kafka-acls.sh each.

    Add --bootstrap-server and --add to each line. docs/operate/secure.md has the rights of
    sources, sinks and readers.
    """
    topology = load(topology_path)
    known = [each.name for each in topology.stages]
    if unknown := [name for name in names if name not in known]:
        raise Refused(f"no stage is named {unknown[0]!r}; there are {', '.join(known)}")
    found = [
        (principal.replace("{stage}", each.name.replace("+", "-")), right)
        for each in topology.stages
        if not names or each.name in names
        for right in list_rights(topology, each)
    ]
    if as_json:
        listed = [{"principal": who, **right._asdict()} for who, right in dict.fromkeys(found)]
        click.echo(json.dumps(listed))
        return
    for line in dict.fromkeys(_acl_command(who, right) for who, right in found):
        click.echo(line)


def _acl_command(principal: str, right: Right) -> str:
    operations = [word for each in right.operations for word in ("--operation", each)]
    pattern = ["--resource-pattern-type", "prefixed"] if right.prefixed else []
    of = (f"--{right.kind}", right.name)
    return shlex.join(["kafka-acls.sh", "--allow-principal", principal, *operations, *of, *pattern])


def hint_of_few_replicas(outcomes: list[Outcome]) -> str | None:
    """Return a hint if topics have fewer replicas than the brokers could keep, else None."""
    copies = min(outcome.copies for outcome in outcomes)
    brokers = outcomes[0].brokers
    if copies >= min(brokers, SAFE_COPIES):
        return None
    return (
        f"by the brokers' default, topics have {copies} copies on {brokers} brokers, so records may"
        " be lost with a broker; write `topics: {replication: 3}` before the topics are created"
    )
