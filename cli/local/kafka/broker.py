"""A real Kafka cluster of one to three nodes on this machine, from Maven jars.

KRaft, every node broker and controller at once, loopback only. The first start
formats the storage; data and ports stay over `restart`, also after `kill`. About
four seconds to the first answer and 400 MB of memory a node.

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
from cli.local.kafka.client import answers, create_topic
from cli.local.ports import LOOPBACK, free_ports
from cli.local.process import NotReady, Process
from cli.local.server import Server

HEAP_MIB = 512
START_TIMEOUT_S = 60.0
FORMAT_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 10.0
FORMAT_HEAP_MIB = 128
FORMAT_OPTIONS = ("-XX:TieredStopAtLevel=1",)
"""The storage tool lives for a second: the first compiler will do."""


class KafkaBroker(Server):
    """`folder` holds logs and data; `overrides` are broker settings on top of ours.

    `listeners` (name to security protocol) are open beside the plain one, which brokers and
    harness go on using; `address` says where. `format_options` go to the storage tool:
    users of SCRAM are made with the storage. `ports`: of the nodes, in place of free ones.
    `advertised`: for a listener, the port that clients are given for each node: of a proxy, say.
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
        self._settings = settings.shared(nodes, listeners) | dict(overrides or {})
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
        """The servers as clients want them: host:port, by commas."""
        return self.address(settings.PLAIN)

    def address(self, listener: str) -> str:
        """The servers by that listener."""
        return ",".join(f"{LOOPBACK}:{port}" for port in self._ports[listener])

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Format on the first call, start all nodes, wait until all of them answer."""
        if not self.nodes:
            self._prepare()
        for node in self.nodes:
            if not node.is_alive():
                node.start()
        self._wait(timeout_s)

    def stop(self) -> None:
        """A clean end of all nodes; `start` brings them back with their data."""
        for node in self.nodes:
            node.terminate()
        for node in self.nodes:
            node.stop(STOP_TIMEOUT_S)  # the last nodes find no quorum to see them off

    def kill(self, node: int = 0) -> None:
        """SIGKILL."""
        self.nodes[node].kill()

    def pause(self, node: int = 0) -> None:
        """SIGSTOP."""
        self.nodes[node].pause()

    def resume(self, node: int = 0) -> None:
        """SIGCONT."""
        self.nodes[node].resume()

    def restart(self, node: int = 0, timeout_s: float = START_TIMEOUT_S) -> None:
        """Stop it where it runs, start it on the same data and port, wait for all."""
        self.nodes[node].stop()
        self.nodes[node].start()
        self._wait(timeout_s)

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        """Make a topic and wait until it has its leaders."""
        create_topic(self.bootstrap, name, partitions, config=config)

    def _take_down(self) -> None:
        for node in self.nodes:
            node.kill()

    def _prepare(self) -> None:
        classpath = jars.classpath(self._version)
        archived = classes.reading(jars.folder(self._version))
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        for number in range(len(self._controller_ports)):
            folder = self._folder / f"node-{number + 1}"
            folder.mkdir(parents=True)
            own = settings.of_node(number, self._ports, self._controller_ports, self._advertised)
            own["log.dirs"] = str(folder / "log-dirs")
            properties = folder / "server.properties"
            properties.write_text(settings.as_properties(self._settings | own))
            java = _java(classpath, FORMAT_HEAP_MIB, *FORMAT_OPTIONS, *archived)
            _format(java, cluster, properties, self._format_options)
            command = [*_java(classpath, self._heap_mib, *archived), "kafka.Kafka", str(properties)]
            self.nodes.append(Process(f"kafka-{number + 1}", command, folder))

    def _wait(self, timeout_s: float) -> None:
        running = sum(node.is_alive() for node in self.nodes)
        for node, port in zip(self.nodes, self._ports[settings.PLAIN], strict=True):
            if node.is_alive():
                node.wait_until(partial(answers, f"{LOOPBACK}:{port}", running), timeout_s)


def _java(classpath: str, heap_mib: int, *options: str) -> list[str]:
    return [
        "java",
        "-server",
        f"-Xmx{heap_mib}m",
        f"-Xms{heap_mib // 2}m",
        "-XX:+UseSerialGC",  # the clients need the cores more than the broker does
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
