"""Names a worker, so that it gets its partitions back after a restart.

An option gives the name. In Kubernetes the default is the name of the pod, because no two live pods
of a namespace have the same name. Elsewhere there is no default, because a host may run any number
of workers.
"""

from __future__ import annotations

import os
import re
from typing import Final

import click

from cli.kafka_options import seconds
from cli.topology_file import Refused

LONGEST: Final = 200
"""The maximum length of a name; Kafka allows 249 characters, and the stage's name is appended."""

FIT: Final = re.compile(rf"[A-Za-z0-9._-]{{1,{LONGEST}}}")
NONE: Final = "none"


def _name(_: click.Context, __: click.Parameter, name: str | None) -> str | None:
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
    callback=_name,
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
