"""Examples: a Kubernetes node for tests harms no other node on the same machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import pytest

from cli.local.lock import lock_file
from infra.kubernetes import machine, node, programs
from infra.kubernetes.node import Node
from infra.kubernetes.settings import write_all


@pytest.fixture(autouse=True)
def all_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that all programs are installed and that root runs the test."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(programs, "build_all", lambda: Path("/built"))


def begin(command: list[str]) -> subprocess.Popen[bytes]:
    """Start a program and wait for its first line.

    Before that line, /proc may still show the command of this process.
    """
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_node_needs_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert node.missing() == "a node of Kubernetes wants root"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
def test_second_kubelet_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "kubelet"
    program.write_text("#!/bin/sh\necho begun\nread line\n")
    program.chmod(0o755)
    with begin([str(program)]) as other:
        assert "runs another node" in str(node.missing())
    assert f"process {other.pid}" not in str(node.missing())


def test_stopped_containers_are_skipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    labels = {"io.kubernetes.pod.uid": "u", "io.kubernetes.container.name": "worker"}
    listed = "TASK  PID  STATUS\nold  11  STOPPED\nnew  12  RUNNING\n"
    told = {"tasks": listed, "containers": json.dumps({"Labels": labels})}
    monkeypatch.setattr(node, "run", lambda *words: told[words[5]])
    assert Node(tmp_path).pids("u", "worker") == [12]


def test_changed_coredns_is_rebuilt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(programs, "folder", lambda: tmp_path)
    for name in programs.NAMES:
        (tmp_path / name).touch()
    (tmp_path / "main.go").write_text(programs.SOURCE.read_text())
    (tmp_path / "go.mod").write_text(f"require {programs.COREDNS} // indirect\n")
    assert programs.missing() is None
    monkeypatch.setattr(programs, "COREDNS", f"{programs.COREDNS}0")
    assert programs.missing() == programs.NO_GO


def test_only_cni_namespaces_are_listed() -> None:
    """Later containers in a pod refer to their network namespace by a process, not a CNI path."""
    paths = ("/var/run/netns/cni-1", "/proc/7/ns/net", None)
    spaces = [{"type": "network"} | ({"path": path} if path else {}) for path in paths]
    assert node.spaces_of({"Spec": {"linux": {"namespaces": spaces}}}) == {"cni-1"}
    assert node.spaces_of({"ID": "broken"}) == set()


def test_hanging_call_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("ctr", 60)

    monkeypatch.setattr(subprocess, "run", hang)
    assert machine.attempt("ctr", "tasks", "list") == ""


def test_logs_are_in_the_nodes_folder(tmp_path: Path) -> None:
    """In the machine's shared folder, kubelet would delete the logs of another node."""
    write_all(tmp_path)
    kubelet = json.loads((tmp_path / "kubelet.yaml").read_text())
    assert kubelet["podLogsDir"] == str(tmp_path / "logs")
    containerd = tomllib.loads((tmp_path / "containerd.toml").read_text())
    opt = containerd["plugins"]["io.containerd.internal.v1.opt"]
    assert opt["path"] == str(tmp_path / "containerd" / "opt")


@pytest.fixture
def note(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the path of the note, after replacing everything that would change the machine."""
    place = tmp_path / "note.json"
    monkeypatch.setattr(machine, "NOTE", place)
    for name in ("SPACES", "SOCKETS", "LOGS"):
        monkeypatch.setattr(machine, name, tmp_path / name)
    monkeypatch.setattr(machine, "LEFT", (tmp_path / "SOCKETS", tmp_path / "LOGS"))
    for module in (machine, node):
        monkeypatch.setattr(module, "attempt", lambda *_: "")
    return place


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
def test_killed_run_is_cleaned_up(
    monkeypatch: pytest.MonkeyPatch, note: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(node, "run", lambda *_, **__: "")
    folder = tmp_path / "node"
    folder.mkdir()
    machine.read(folder, "inorder-0").note()
    (tmp_path / "SOCKETS").mkdir()
    (tmp_path / "SOCKETS" / "kubelet.sock").touch()
    (tmp_path / "LOGS").mkdir()
    (tmp_path / "LOGS" / "own.log").symlink_to(folder / "logs" / "0.log")
    (tmp_path / "LOGS" / "other.log").symlink_to(tmp_path / "0.log")
    waits = ["sh", "-c", "echo begun; read line"]
    with begin([*waits, str(folder)]) as left, begin(waits) as other:
        (folder / "etcd.pid").write_text(f"{left.pid}\n")
        (folder / "coredns.pid").write_text(f"{other.pid}\n")  # The number was reused.
        threading.Thread(target=left.wait).start()
        node.end_former()
        assert left.wait() == -signal.SIGTERM
        assert other.poll() is None
    assert not folder.exists()
    assert not (tmp_path / "SOCKETS").exists()
    assert [each.name for each in (tmp_path / "LOGS").iterdir()] == ["other.log"]
    assert machine.read_note() is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
def test_cleanup_builds_no_programs(
    monkeypatch: pytest.MonkeyPatch, note: Path, tmp_path: Path
) -> None:
    """If the cache was emptied after the run was killed, there is no kubectl either."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("nothing is built, and nothing asks the API server")

    monkeypatch.setattr(programs, "build_all", refuse)
    monkeypatch.setattr(programs, "folder", lambda: tmp_path / "programs")
    monkeypatch.setattr(node, "run", refuse)
    machine.read(tmp_path / "node", "inorder-0").note()
    node.end_former()
    assert machine.read_note() is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
def test_node_of_running_run_stays(note: Path, tmp_path: Path) -> None:
    machine.read(tmp_path / "node", "inorder-0").note()
    with lock_file(note, 1.0):
        node.end_former()
    assert machine.read_note() is not None
