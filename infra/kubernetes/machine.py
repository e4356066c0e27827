"""Notes the machine as it was before a node, and removes what the node leaves on it.

The note is in `NOTE`, which the process of the node locks. A run that can lock it while it has a
note knows what a killed run left.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cli.local.poll import wait_until
from cli.local.process import find_descendants, is_alive
from infra.containers.machine import remove_folders

END_TIMEOUT_S: Final = 10.0
NOTE: Final = Path("/run/inorder-node.json")
"""Only root writes to this folder, which is empty after a restart of the machine."""
CGROUPS: Final = Path("/sys/fs/cgroup")
TUNED: Final = (
    *("vm.overcommit_memory", "vm.panic_on_oom", "kernel.panic", "kernel.panic_on_oops"),
    *("kernel.keys.root_maxkeys", "kernel.keys.root_maxbytes"),
)
"""The settings of the kernel that kubelet changes for the whole machine."""
OWN_GROUPS: Final = ("kubepods", "k8s.io")
"""The control groups of pods, at the top of each hierarchy."""
SPACES: Final = Path("/run/netns")
SOCKETS: Final = Path("/var/lib/kubelet/device-plugins")
LOGS: Final = Path("/var/log/containers")
NETWORKS: Final = Path("/var/lib/cni/results")
LEFT: Final = (SPACES, SOCKETS.parent, LOGS, NETWORKS.parent, Path("/run/containerd"))
"""Folders in which the programs write, whatever their settings."""


@dataclass(frozen=True)
class Before:
    """The machine before a node.

    Attributes:
        folder: The node's folder.
        space: The node's network namespace.
        tuned: The values of `TUNED`.
        groups: Those of `OWN_GROUPS` that exist, in each hierarchy.
        folders: Those of `LEFT` that exist, with the folders in them.
    """

    folder: Path
    space: str
    tuned: dict[str, str]
    groups: frozenset[Path]
    folders: frozenset[Path]

    def note(self) -> None:
        written = {
            "folder": str(self.folder),
            "space": self.space,
            "tuned": self.tuned,
            "groups": sorted(map(str, self.groups)),
            "folders": sorted(map(str, self.folders)),
        }
        NOTE.write_text(json.dumps(written))

    def restore(self, containers: Iterable[str]) -> None:
        """Restore the settings, remove what the node and its containers left, and end the note."""
        for name, value in self.tuned.items():
            attempt("sysctl", "-qw", f"{name}={value}")
        for group in find_groups() - self.groups:
            remove_folders(group)
        for name in containers:
            for network in NETWORKS.glob(f"*-{name}-*"):
                network.unlink()
        for link in LOGS.glob("*.log"):
            if link.is_symlink() and link.readlink().is_relative_to(self.folder):
                link.unlink()
        if SOCKETS not in self.folders:
            (SOCKETS / "kubelet.sock").unlink(missing_ok=True)
        if SPACES not in self.folders and not any(SPACES.glob("*")):
            attempt("umount", str(SPACES))
        for top in LEFT:
            remove_folders(top, self.folders)
        NOTE.write_text("")


class LeftProcess:
    """A process of a node whose run was killed, by the file with its id."""

    def __init__(self, file: Path) -> None:
        self.name = file.stem
        self._file = file

    def stop(self) -> None:
        """End the process, unless another one has its id by now."""
        with suppress(FileNotFoundError, ProcessLookupError, ValueError):
            pid = int(self._file.read_text())
            if str(self._file.parent) in Path(f"/proc/{pid}/cmdline").read_text():
                end(pid)
        self._file.unlink(missing_ok=True)


def read(folder: Path, space: str) -> Before:
    """Return the machine as it is now; `folder` and `space` are those of a node."""
    tuned = {name: attempt("sysctl", "-n", name).strip() for name in TUNED}
    return Before(folder, space, tuned, find_groups(), find_folders())


def read_note() -> Before | None:
    """Return the note of a run; None if there is none."""
    try:
        found = json.loads(NOTE.read_text())
    except (FileNotFoundError, ValueError):  # A run may have been killed while it wrote.
        return None
    groups, folders = (frozenset(map(Path, found[key])) for key in ("groups", "folders"))
    return Before(Path(found["folder"]), found["space"], found["tuned"], groups, folders)


def find_groups() -> frozenset[Path]:
    """Return those of `OWN_GROUPS` that exist, in each hierarchy."""
    found = [place for name in OWN_GROUPS for place in (CGROUPS / name, *CGROUPS.glob(f"*/{name}"))]
    return frozenset(place for place in found if place.is_dir() and not place.is_symlink())


def find_folders() -> frozenset[Path]:
    """Return those of `LEFT` that exist, with the folders in them."""
    return frozenset(Path(name) for top in LEFT for name, _, _ in os.walk(top))


def find_processes(word: str) -> list[int]:
    """Return the processes of the machine one of whose arguments is `word`."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if word.encode() in file.read_bytes().split(b"\0"):
                found.append(int(file.parent.name))
    return found


def end(pid: int) -> None:
    """Ask a process and its descendants to end; kill those that do not in time."""
    family = [pid, *find_descendants(pid)]
    for sign in (signal.SIGTERM, signal.SIGKILL):
        for each in family:
            with suppress(ProcessLookupError):
                os.kill(each, sign)
        with suppress(TimeoutError):
            wait_until(
                lambda: not any(map(is_alive, family)), END_TIMEOUT_S, "the end of processes"
            )


def attempt(*words: str) -> str:
    """Run a command whose failure does not matter, and return its output."""
    try:
        return subprocess.run(words, check=False, capture_output=True, text=True, timeout=60).stdout
    except subprocess.TimeoutExpired:
        return ""
