"""The name under which a worker gets its place in the consumer groups back, and for how long
the groups keep it.

The name is given, or the pod's in Kubernetes, where no two pods that live have the same;
elsewhere there is none, for a host may run any number of workers.
"""

from __future__ import annotations

import os
import re
from typing import Final

import click

from cli.kafka_options import seconds
from cli.topology_file import Refused

LONGEST: Final = 200
"""Characters; Kafka takes 249, and the stage's name comes behind."""

FIT: Final = re.compile(rf"[A-Za-z0-9._-]{{1,{LONGEST}}}")
NONE: Final = "none"


def _named(_: click.Context, __: click.Parameter, name: str | None) -> str | None:
    if name is None:
        name = os.environ.get("HOSTNAME") if "KUBERNETES_SERVICE_HOST" in os.environ else None
        return name if name and FIT.fullmatch(name) else None
    if name == NONE:
        return None
    if not FIT.fullmatch(name):
        raise Refused(
            f"--instance {name}: write 1 to {LONGEST} letters, digits, dots, dashes and underscores"
        )
    return name


instance_option = click.option(
    "--instance",
    envvar="INORDER_INSTANCE",
    metavar="NAME",
    callback=_named,
    help="Name of this worker. If it is back within --session, it keeps its "
    "partitions. Default: the name of the pod in Kubernetes, else `none`.",
)
session_option = click.option(
    "--session",
    "session_s",
    envvar="INORDER_SESSION",
    metavar="DURATION",
    default="6s",
    callback=seconds,
    help="Time without a sign of life after which other processes take the partitions.",
)
