"""Runs a real Kafka cluster of one to three nodes on this machine, from Maven jars.

The cluster runs in KRaft mode on loopback only, and every node is both broker and controller. The
first start formats the storage. Data and ports survive `restart`, also after `kill`. A node takes
about four seconds to its first answer, and 400 MB of memory.

    with KafkaBroker(folder) as kafka:
        kafka.create_topic("events.raw", partitions=4)
        ... kafka.bootstrap ...
        kafka.kill(); kafka.restart()
"""

from __future__ import annotations

import base64
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from cli.local import classes
from cli.local.kafka import jars, settings
from cli.local.kafka.client import create_topic, is_answering
from cli.local.ports import LOOPBACK, free_ports
from cli.local.process import NotReady, Process
from cli.local.server import Server

HEAP_MIB = 512
START_TIMEOUT_S = 60.0
FORMAT_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 10.0
FORMAT_HEAP_MIB = 128
FORMAT_OPTIONS = ("-XX:TieredStopAtLevel=1",)
"""JVM options of the storage tool. It runs for about a second, so the C1 compiler is enough."""


class KafkaBroker(Server):
    """A Kafka cluster on this machine.

    Args:
        folder: The folder for logs and data.
        overrides: Broker settings that replace ours.
        listeners: Security protocols by listener name, in addition to the plain listener, which
            brokers, tests and benchmarks use. `address` returns the servers of a listener.
        format_options: Options of the storage tool, which creates SCRAM users, for instance.
        ports: Ports of the nodes, instead of free ones.
        advertised: Ports of each node that a listener announces to clients, such as a proxy's.
    """

    def __init__(
        self,
        folder: Path,
        *,
        nodes: int = 1,
        overrides: Mapping[str, str] | None = None,
        heap_mib: int = HEAP_MIB,
        listeners: Mapping[str, str] | None = None,
        format_options: Sequence[str] = (),
        ports: Sequence[int] = (),
        advertised: Mapping[str, Sequence[int]] | None = None,
        version: str = jars.VERSION,
    ) -> None:
        self._settings = settings.shared_settings(nodes, listeners) | dict(overrides or {})
        self._folder = folder
        self._heap_mib = heap_mib
        self._format_options = list(format_options)
        self._advertised = dict(advertised or {})
        self._version = version
        names = [settings.PLAIN, *(listeners or ())]
        taken = free_ports((len(names) + 1) * nodes)
        self._controller_ports = taken[-nodes:]
        self._ports = {name: taken[at * nodes :][:nodes] for at, name in enumerate(names)}
        if ports:
            self._ports[settings.PLAIN] = list(ports)
        self.nodes: list[Process] = []

    @property
    def bootstrap(self) -> str:
        """The servers as clients need them: HOST:PORT, separated by commas."""
        return self.address(settings.PLAIN)

    def address(self, listener: str) -> str:
        """Return the servers of a listener, as `bootstrap` does."""
        return ",".join(f"{LOOPBACK}:{port}" for port in self._ports[listener])

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start all nodes and wait until they answer; the first call formats the storage."""
        if not self.nodes:
            self._prepare()
        for node in self.nodes:
            if not node.is_alive():
                node.start()
        self._wait(timeout_s)

    def stop(self) -> None:
        """Stop all nodes in order; `start` brings them back with their data."""
        for node in self.nodes:
            node.terminate()
        for node in self.nodes:
            # The last nodes may be killed, because they find no quorum for a controlled shutdown.
            node.stop(STOP_TIMEOUT_S)

    def kill(self, node: int = 0) -> None:
        """Send SIGKILL to a node."""
        self.nodes[node].kill()

    def pause(self, node: int = 0) -> None:
        """Send SIGSTOP to a node."""
        self.nodes[node].pause()

    def resume(self, node: int = 0) -> None:
        """Send SIGCONT to a node."""
        self.nodes[node].resume()

    def restart(self, node: int = 0, timeout_s: float = START_TIMEOUT_S) -> None:
        """Stop a node if it runs, start it on the same data and ports, and wait for all nodes."""
        self.nodes[node].stop()
        self.nodes[node].start()
        self._wait(timeout_s)

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic and wait until its partitions have leaders."""
        create_topic(self.bootstrap, name, partitions, config=config)

    def _take_down(self) -> None:
        for node in self.nodes:
            node.kill()

    def _prepare(self) -> None:
        classpath = jars.classpath(self._version)
        archived = classes.read_options(jars.folder(self._version))
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        for number in range(len(self._controller_ports)):
            folder = self._folder / f"node-{number + 1}"
            folder.mkdir(parents=True)
            own = settings.settings_of_node(
                number, self._ports, self._controller_ports, self._advertised
            )
            own["log.dirs"] = str(folder / "log-dirs")
            properties = folder / "server.properties"
            properties.write_text(settings.as_properties(self._settings | own))
            java = _java_command(classpath, FORMAT_HEAP_MIB, *FORMAT_OPTIONS, *archived)
            _format(java, cluster, properties, self._format_options)
            command = [
                *_java_command(classpath, self._heap_mib, *archived),
                "kafka.Kafka",
                str(properties),
            ]
            self.nodes.append(Process(f"kafka-{number + 1}", command, folder))

    def _wait(self, timeout_s: float) -> None:
        running = sum(node.is_alive() for node in self.nodes)
        for node, port in zip(self.nodes, self._ports[settings.PLAIN], strict=True):
            if node.is_alive():
                node.wait_until(partial(is_answering, f"{LOOPBACK}:{port}", running), timeout_s)


def _java_command(classpath: str, heap_mib: int, *options: str) -> list[str]:
    return [
        "java",
        "-server",
        f"-Xmx{heap_mib}m",
        f"-Xms{heap_mib // 2}m",
        "-XX:+UseSerialGC",  # The clients need the cores more than the broker does.
        "-XX:+ExitOnOutOfMemoryError",
        "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile={jars.LOG_SETTINGS}",
        *options,
        "-cp",
        classpath,
    ]


def _format(java: Sequence[str], cluster: str, properties: Path, options: Sequence[str]) -> None:
    what = (f"--cluster-id={cluster}", f"--config={properties}", *options)
    command = [*java, "kafka.tools.StorageTool", "format", *what]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=FORMAT_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise NotReady(
            f"the storage of {properties} was not formatted:\n{done.stdout}{done.stderr}"
        )
