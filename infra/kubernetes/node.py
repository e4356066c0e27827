"""Runs a whole Kubernetes of one node, with its pods, in a network namespace of its own.

It needs root, and containerd, runc, the network plugins, iptables and ip of the machine
(`NEEDED`). Its addresses, routes and rules are in its namespace, and its files below its folder.
Its control groups and some settings of the kernel are the machine's; `stop` restores both, and
`end_former` does so after a run that was killed (`infra.kubernetes.machine`).

Pods have no way out, and images come from files (`load`).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

from cli.local.lock import lock_file
from cli.local.poll import wait_until
from cli.local.process import Process
from cli.local.server import Server
from infra.kubernetes import machine, programs, settings
from infra.kubernetes.machine import CGROUPS, SPACES, Before, LeftProcess, attempt
from infra.kubernetes.settings import ADDRESS, NAME, PODS, SERVICES

NEEDED: Final = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "ipset": "ipset",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "openssl": "openssl",
    "sysctl": "procps",
    str(settings.PLUGINS / "bridge"): "containernetworking-plugins",
}
"""The programs, and Debian's packages of them."""

START_TIMEOUT_S: Final = 90.0
STOP_TIMEOUT_S: Final = 60.0
CALL_TIMEOUT_S: Final = 600.0
LOCK_TIMEOUT_S: Final = 60.0
KUBELETS: Final = {"kubelet", "kubelite", "k0s", "k3s-server", "k3s-agent"}
"""The names of the processes that run pods, in distributions of Kubernetes."""


def missing() -> str | None:
    """Return why no node can be started here; None if one can."""
    if os.geteuid() != 0:
        return "a node of Kubernetes wants root"
    absent = sorted({package for name, package in NEEDED.items() if not shutil.which(name)})
    if absent:
        return f"a node of Kubernetes wants Debian's packages {', '.join(absent)}"
    if pid := _find_kubelet():
        return (
            f"process {pid} runs another node of Kubernetes here, and each would end the other's"
            " pods; end that node, or name its cluster in INORDER_KUBECONFIG"
        )
    return None if shutil.which("go") else programs.NO_GO


class Node(Server):
    """A node. `folder` has its files; its path must be short, because sockets are in it."""

    def __init__(self, folder: Path, before: Before | None = None) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self._before = before
        self._space = before.space if before else f"inorder-{os.getpid()}"
        self._opened = ExitStack()
        self._programs = programs.folder()
        # The files of a new node are not there yet.
        left = map(LeftProcess, sorted(folder.glob("*.pid")))
        self._processes: list[Process | LeftProcess] = [*left]
        self._socket = str(folder / "containerd" / "containerd.sock")

    # -- Life --------------------------------------------------------------------------------------

    def start(self) -> None:
        programs.build_all()
        self._opened.enter_context(lock_file(machine.NOTE, LOCK_TIMEOUT_S))
        _end_noted()
        self._before = machine.read(self.folder, self._space)
        self._before.note()
        settings.write_all(self.folder)
        key = self.folder / "pki" / "accounts.key"
        run("openssl", "genrsa", "-out", str(key), "2048")
        self._make_proxy_certificate()
        self._make_space()
        containerd = ("containerd", "--config", str(self.folder / "containerd.toml"))
        self._begin("containerd", containerd)
        for name, options in self._options(key):
            self._begin(name, [str(self._programs / name), *options])
            if name == "kube-apiserver":
                wait_until(self._answers, START_TIMEOUT_S, "the API server")
        wait_until(self._is_ready, START_TIMEOUT_S, "the node to be ready")
        archive = self.folder / "pause.tar"
        programs.build_pause_image(archive)
        self.load(archive)

    def stop(self) -> None:
        """End all processes, and remove the namespaces, the mounts and the control groups."""
        if self._before is None:
            return  # Another run has a node, whose files and groups these are.
        with self._opened:
            for process in self._processes:
                if process.name == "kube-controller-manager":
                    process.stop()  # It would replace the pods.
            if (self._programs / "kubectl").is_file():
                self._delete_pods()
            for process in reversed(self._processes):
                if process.name != "containerd":
                    process.stop()
            self._end_tasks()
            containers = attempt(*self._containers("containers", "list", "--quiet")).split()
            spaces = [self._space, *self._spaces(containers)]
            for process in self._processes:
                process.stop()
            # A containerd that was killed leaves the parents of its containers.
            for pid in machine.find_processes(self._socket):
                machine.end(pid)
            for mount in sorted(self._mounts(), reverse=True):
                attempt("umount", "--lazy", mount)
            for space in spaces:
                attempt("ip", "netns", "delete", space)
            self._before.restore(containers)

    def _make_proxy_certificate(self) -> None:
        """Make the certificate by which servers of metrics recognise the API server."""
        key, made = (str(self.folder / "pki" / f"proxy.{end}") for end in ("key", "crt"))
        words = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj")
        run("openssl", *words, f"/CN={settings.PROXY}", "-keyout", key, "-out", made)

    def _make_space(self) -> None:
        run("ip", "netns", "add", self._space)
        for words in (
            ("ip", "link", "set", "lo", "up"),
            ("ip", "link", "add", "node0", "type", "bridge"),
            ("ip", "addr", "add", f"{ADDRESS}/24", "dev", "node0"),
            ("ip", "link", "set", "node0", "up"),
            ("ip", "route", "add", "default", "via", ADDRESS, "dev", "node0"),
            # This is a setting of the namespace alone.
            ("sysctl", "-qw", "net.ipv4.ip_forward=1"),
        ):
            run(*self.inside(words))

    def _begin(self, name: str, command: Sequence[str]) -> None:
        process = Process(name, self.inside(command), self.folder)
        self._processes.append(process)
        process.start()

    def _options(self, key: Path) -> Iterator[tuple[str, list[str]]]:
        """Yield the options of each program, in the order of their start."""
        peer, client = "http://127.0.0.1:2380", "http://127.0.0.1:2379"
        config, pki = f"--kubeconfig={self.kubeconfig}", self.folder / "pki"
        yield (
            "etcd",
            [
                *(f"--data-dir={self.folder / 'etcd'}", "--unsafe-no-fsync"),
                *(f"--listen-client-urls={client}", f"--advertise-client-urls={client}"),
                *(f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}"),
                f"--initial-cluster=default={peer}",
            ],
        )
        yield (
            "kube-apiserver",
            [
                *(f"--etcd-servers={client}", f"--bind-address={ADDRESS}", "--secure-port=6443"),
                *(f"--advertise-address={ADDRESS}", f"--cert-dir={pki}"),
                *(f"--service-cluster-ip-range={SERVICES}", "--allow-privileged=true"),
                *(f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}"),
                "--service-account-issuer=https://kubernetes.default.svc",
                *("--authorization-mode=Node,RBAC", "--anonymous-auth=false"),
                f"--token-auth-file={self.folder / 'tokens.csv'}",
                "--kubelet-preferred-address-types=InternalIP",
                *settings.proxy_options(pki),
            ],
        )
        yield (
            "kube-controller-manager",
            [
                *(config, f"--service-account-private-key-file={key}", f"--cert-dir={pki}"),
                *(f"--root-ca-file={pki / 'apiserver.crt'}", "--leader-elect=false"),
                *("--allocate-node-cidrs=true", f"--cluster-cidr={PODS}"),
                *("--node-cidr-mask-size=24", f"--service-cluster-ip-range={SERVICES}"),
                "--node-monitor-grace-period=20s",
                f"--flex-volume-plugin-dir={self.folder / 'plugins'}",
            ],
        )
        yield "kube-scheduler", [config, "--leader-elect=false"]
        named = (f"--hostname-override={NAME}",)
        yield (
            "kube-proxy",
            [
                *(config, *named, "--proxy-mode=iptables", f"--cluster-cidr={PODS}"),
                *("--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0"),
                *("--conntrack-tcp-timeout-close-wait=0", "--oom-score-adj=0"),
            ],
        )
        yield "coredns", ["-conf", str(self.folder / "Corefile")]
        yield (
            "kubelet",
            [
                *(config, *named, f"--config={self.folder / 'kubelet.yaml'}"),
                *(f"--node-ip={ADDRESS}", f"--root-dir={self.folder / 'kubelet'}"),
                f"--cert-dir={pki}",
            ],
        )

    # -- Use ---------------------------------------------------------------------------------------

    def inside(self, words: Sequence[str]) -> list[str]:
        """Return the command that runs a command in the node's network."""
        return ["nsenter", f"--net={SPACES / self._space}", *words]

    def kubectl(self, *words: str, given: str | None = None) -> str:
        """Run kubectl as `run` runs a program."""
        return run(*self._kubectl(words), given=given)

    def _kubectl(self, words: Sequence[str]) -> list[str]:
        return self._client(str(self._programs / "kubectl"), words)

    def _client(self, program: str, words: Sequence[str]) -> list[str]:
        """Return the command of a client of the API server, whose cache is in the folder too."""
        cached = f"KUBECACHEDIR={self.folder / 'cache'}"
        return self.inside(["env", cached, program, f"--kubeconfig={self.kubeconfig}", *words])

    def helm(self, program: str, *words: str) -> str:
        """Run Helm, whose path is `program`, as `kubectl` runs kubectl."""
        return run(*self._client(program, words))

    def load(self, archive: Path) -> None:
        """Take the images of an archive as `docker save` writes it."""
        run(*self._containers("images", "import", str(archive)))

    def popen(self, *words: str) -> subprocess.Popen[str]:
        """Start kubectl without waiting for its end; its output is piped."""
        return subprocess.Popen(
            self._kubectl(words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def pids(self, uid: str, container: str) -> list[int]:
        """Return the first process of a pod's container, in the machine's numbers."""
        found = []
        for line in run(*self._containers("tasks", "list")).splitlines()[1:]:
            task, pid, status = line.split()
            if status != "RUNNING":
                continue  # Another process of the machine may have the number by now.
            labels = json.loads(run(*self._containers("containers", "info", task)))["Labels"]
            if (
                labels.get("io.kubernetes.pod.uid") == uid
                and labels.get("io.kubernetes.container.name") == container
            ):
                found.append(int(pid))
        return found

    def usage(self, uid: str, container: str) -> tuple[float, int]:
        """Return the CPU seconds of a pod's container so far, and its bytes of memory."""
        (pid,) = self.pids(uid, container)
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        paths = {
            kind: place
            for _, kinds, place in (line.split(":", 2) for line in lines)
            for kind in kinds.split(",")
        }
        if "cpuacct" in paths:
            cpu = CGROUPS / "cpuacct" / paths["cpuacct"].lstrip("/") / "cpuacct.usage"
            memory = CGROUPS / "memory" / paths["memory"].lstrip("/") / "memory.stat"
            return int(cpu.read_text()) / 1e9, _stat(memory, "total_rss")
        group = CGROUPS / paths[""].lstrip("/")
        return _stat(group / "cpu.stat", "usage_usec") / 1e6, _stat(group / "memory.stat", "anon")

    def enforce_policies(self) -> None:
        """Start kube-router, which refuses what no network policy of a pod admits."""
        options = ("--run-router=false", "--run-service-proxy=false", "--run-firewall=true")
        where = (f"--kubeconfig={self.kubeconfig}", f"--hostname-override={NAME}")
        ranges = (f"--service-cluster-ip-range={SERVICES}", "--health-port=0")
        router = str(programs.build_router())
        self._begin("kube-router", [router, *options, *where, *ranges])

    def add_volumes(self, count: int) -> None:
        """Add local volumes, which belong to root, and a class of storage that offers them."""
        for number in range(count):
            (self.folder / "volumes" / str(number)).mkdir()
        self.kubectl("apply", "-f", "-", given=settings.volumes(self.folder, count))

    def _containers(self, *words: str) -> list[str]:
        return ["ctr", "--address", self._socket, "--namespace", "k8s.io", *words]

    def _answers(self) -> bool:
        try:
            return self.kubectl("get", "--raw", "/readyz") == "ok"
        except subprocess.CalledProcessError:
            return False

    def _is_ready(self) -> bool:
        path = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
        try:
            return self.kubectl("get", "node", NAME, "-o", path) == "True"
        except subprocess.CalledProcessError:
            return False

    # -- Cleanup -----------------------------------------------------------------------------------

    def _delete_pods(self) -> None:
        """Delete all pods while kubelet runs, which takes their networks down too."""
        with suppress(subprocess.CalledProcessError, subprocess.TimeoutExpired):
            self.kubectl("delete", "pods", "--all", "-A", "--force", "--grace-period=0")
            self._await_no_tasks()

    def _tasks(self) -> list[str]:
        return attempt(*self._containers("tasks", "list", "--quiet")).split()

    def _await_no_tasks(self) -> None:
        with suppress(TimeoutError):
            wait_until(lambda: not self._tasks(), STOP_TIMEOUT_S, "the end of all pods")

    def _end_tasks(self) -> None:
        """Kill what pods still run after kubelet has ended."""
        for task in self._tasks():
            attempt(*self._containers("tasks", "kill", "--signal", "SIGKILL", task))
            attempt(*self._containers("tasks", "delete", "--force", task))
        self._await_no_tasks()

    def _spaces(self, containers: Sequence[str]) -> set[str]:
        """Return the network namespaces of containers; the machine may have pods too."""
        told = [attempt(*self._containers("containers", "info", each)) for each in containers]
        return {space for each in told if each for space in spaces_of(json.loads(each))}

    def _mounts(self) -> list[str]:
        lines = Path("/proc/mounts").read_text().splitlines()
        places = [line.split()[1] for line in lines]
        return [place for place in places if place.startswith(f"{self.folder}/")]


def run(*words: str, given: str | None = None) -> str:
    """Run a program, with `given` as its input, and return its output.

    Raises subprocess.CalledProcessError, whose `stderr` has the reason.
    """
    done = subprocess.run(
        words, input=given, check=True, capture_output=True, text=True, timeout=CALL_TIMEOUT_S
    )
    return done.stdout


def spaces_of(container: dict[str, Any]) -> set[str]:
    """Return the named network namespaces of a container, from containerd's description."""
    linux = (container.get("Spec") or {}).get("linux") or {}
    paths = [Path(each.get("path", "")) for each in linux.get("namespaces", [])]
    return {path.name for path in paths if path.parent.name == SPACES.name}


def end_former() -> None:
    """End the node that a killed run left; the node of a run that goes on is left alone."""
    with suppress(TimeoutError), lock_file(machine.NOTE, 0.0):
        _end_noted()


def _end_noted() -> None:
    """End the node of the note, which this process has locked."""
    if before := machine.read_note():
        Node(before.folder, before).stop()
        shutil.rmtree(before.folder, ignore_errors=True)


def _find_kubelet() -> int | None:
    """Return the process of another node; those in containers, as of kind, have other mounts."""
    for file in Path("/proc").glob("[0-9]*/comm"):
        with suppress(OSError):
            is_kubelet = file.read_text().strip() in KUBELETS
            if is_kubelet and _mount_space(file.parent.name) == _mount_space("self"):
                return int(file.parent.name)
    return None


def _mount_space(process: str) -> Path:
    return Path(f"/proc/{process}/ns/mnt").readlink()


def _stat(file: Path, name: str) -> int:
    return next(
        int(line.split()[1])
        for line in file.read_text().splitlines()
        if line.startswith(f"{name} ")
    )
