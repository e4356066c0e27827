"""Change quotas and replicas with Kafka's own tools, as an administrator does.

The tools come with the jars of the brokers (`cli.local.kafka.jars`).
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from cli.local.kafka import jars
from tests.end_to_end.topics import TIMEOUT_S, admin_of
from tests.waiting import wait_until

TOOL_TIMEOUT_S = 60.0
CONFIGURE = "kafka.admin.ConfigCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
QUOTA = "producer_byte_rate,consumer_byte_rate"

Copies = dict[tuple[str, int], list[int]]
"""Brokers that keep a replica, the preferred leader first, by topic and partition."""


def _run(tool: str, bootstrap: str, *arguments: str) -> None:
    command = ("java", "-Xmx128m", "-cp", jars.classpath(), tool, "--bootstrap-server", bootstrap)
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False
    )
    assert done.returncode == 0, f"{tool} {arguments}:\n{done.stdout}{done.stderr}"


def set_default_quota(bootstrap: str, bytes_per_s: int) -> None:
    """Set the quota for each client id that lacks its own, for both reading and writing."""
    quotas = ",".join(f"{name}={bytes_per_s}" for name in QUOTA.split(","))
    _alter_default_quota(bootstrap, "--add-config", quotas)


def lift_default_quota(bootstrap: str) -> None:
    _alter_default_quota(bootstrap, "--delete-config", QUOTA)


def _alter_default_quota(bootstrap: str, *change: str) -> None:
    where = ("--entity-type", "clients", "--entity-default")
    _run(CONFIGURE, bootstrap, *where, "--alter", *change)


def copies(bootstrap: str) -> Copies:
    """Return the replicas of all partitions in the cluster, including internal topics."""
    topics = admin_of(bootstrap).list_topics(timeout=TIMEOUT_S).topics
    return {
        (name, number): list(partition.replicas)
        for name, topic in topics.items()
        for number, partition in topic.partitions.items()
    }


def reassign(bootstrap: str, wanted: Mapping[tuple[str, int], Sequence[int]]) -> None:
    """Give partitions other replicas, and wait until they have these and no others."""
    partitions = [
        {"topic": topic, "partition": number, "replicas": list(brokers)}
        for (topic, number), brokers in wanted.items()
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "reassignment.json")
        path.write_text(json.dumps({"version": 1, "partitions": partitions}))
        _run(REASSIGN, bootstrap, "--reassignment-json-file", str(path), "--execute")

    def unlike() -> Copies:
        found = copies(bootstrap)
        return {place: found[place] for place in wanted if found[place] != [*wanted[place]]}

    wait_until(lambda: not unlike(), "the copies to be where they are wanted", unlike)
