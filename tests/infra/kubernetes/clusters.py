"""Provide the tests' cluster: their own node, or the cluster that a kubeconfig names."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from os.path import lexists
from pathlib import Path
from typing import Final

from cli.local.kafka import jars
from infra.containers import base_images, product_image
from infra.containers import engine as engines
from infra.containers.engine import Engine
from infra.kubernetes import machine, node
from infra.kubernetes.node import Node
from tests.infra.kubernetes.plant import SPACES, Cluster
from tests.services import require

VOLUMES: Final = 4
COUNTS: Final = re.compile(r"^#.*\n|\[\d+:\d+\]", re.M)
"""Parts of iptables-save's output that are no rules: the time and the packet counts."""
SETTINGS: Final = (
    ("ip", "-brief", "link"),
    ("ip", "route"),
    ("ip", "netns"),
    ("iptables-save",),
    ("sysctl", "net.ipv4.ip_forward", *machine.TUNED),
)


class GivenCluster:
    """A cluster that already runs."""

    def __init__(self, kubeconfig: str) -> None:
        self._where = f"--kubeconfig={kubeconfig}"

    def kubectl(self, *words: str, given: str | None = None) -> str:
        return node.run("kubectl", self._where, *words, given=given)

    def helm(self, program: str, *words: str) -> str:
        return node.run(program, self._where, *words)

    def popen(self, *words: str) -> subprocess.Popen[str]:
        command = ["kubectl", self._where, *words]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )


@contextmanager
def given_cluster(kubeconfig: str) -> Iterator[Cluster]:
    """Yield a cluster; the tests' namespaces do not exist before or after."""
    cluster = GivenCluster(kubeconfig)
    found = cluster.kubectl("get", "namespaces", *SPACES, "--ignore-not-found", "-o", "name")
    assert not found, f"the cluster is not fresh, delete these from it: {found}"
    try:
        yield cluster
    finally:
        cluster.kubectl("delete", "namespaces", *SPACES, "--ignore-not-found")


@contextmanager
def own_node() -> Iterator[Cluster]:
    # A test's folder does not fit, because sockets need a short path.
    with tempfile.TemporaryDirectory(prefix="node-") as name:
        images = archives(Path(name))
        with Node(Path(name)) as own:
            own.add_volumes(VOLUMES)
            for archive in images:
                own.load(archive)
            yield own


def archives(folder: Path) -> list[Path]:
    """Return archives of the images, from the folder INORDER_NODE_IMAGES or built now."""
    if given := os.environ.get("INORDER_NODE_IMAGES"):
        return sorted(Path(given).glob("*.tar"))
    require(engines.missing() or base_images.missing())
    with Engine() as engine:
        base_images.make_all(engine)
        names = (product_image.build(engine), f"apache/kafka:{jars.VERSION}")
        found = [folder / f"image-{number}.tar" for number in range(len(names))]
        for name, archive in zip(names, found, strict=True):
            engine.docker("save", "--output", str(archive), name)
    return found


def read_traces() -> set[str]:
    """Return the machine's devices, routes, rules, settings, mounts, control groups and folders."""
    found = [
        subprocess.run(words, check=False, capture_output=True, text=True).stdout
        for words in SETTINGS
    ]
    lines = {line.strip() for each in found for line in COUNTS.sub("", each).splitlines()}
    mounts = {line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()}
    groups = {str(each) for each in machine.CGROUPS.glob("*/*") if each.is_dir()}
    files = {str(each) for top in machine.LEFT for each in (top, *top.rglob("*")) if lexists(each)}
    return lines | mounts | groups | files
