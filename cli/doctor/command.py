"""`inorder doctor` checks whether the cluster is fit for a topology."""

from __future__ import annotations

import sys
from dataclasses import asdict

import click
import orjson
from confluent_kafka import KafkaException

from agents.exits import Exit
from cli.as_json import json_option
from cli.doctor.finding import Weight
from cli.doctor.inputs import input_findings
from cli.doctor.topics import check_cluster, describe_cluster
from cli.kafka_options import Kafka, on_kafka
from cli.topology_file import load, topology_option


@click.command("doctor")
@topology_option
@on_kafka()
@json_option("DOCTOR")
def command(topology_path: str, kafka: Kafka, as_json: bool) -> None:
    """Find faults of the topics and their newest records, and print the remedies.

    Nothing is changed.

    Exit 1 if a stage would stop or records would be lost, 0 if there are at most warnings or notes.
    """
    topology = load(topology_path)
    there = kafka.brokers()
    try:
        found = check_cluster(topology, describe_cluster(topology, there))
        found += input_findings(topology, there)
    except KafkaException as error:
        raise click.ClickException(f"the brokers do not answer: {error.args[0].str()}") from error
    if as_json:
        click.echo(orjson.dumps([*map(asdict, found)]))
    else:
        for each in found:
            click.echo(f"{each.weight:7}  {each.where}: {each.what}")
            if each.remedy:
                click.echo(f"         {each.remedy}")
        count = len(found)
        said = f"{count} finding{'' if count == 1 else 's'}" if count else "no faults found"
        click.echo(said, err=True)
    if any(each.weight == Weight.ERROR for each in found):
        sys.exit(Exit.FAILED)
