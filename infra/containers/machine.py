"""Reads the settings of the machine that an engine could change, and takes away what one leaves."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from infra.containers.command import run

NET: Final = Path("/proc/sys/net")
KEYS: Final = Path("/proc/sys/kernel/keys")
LEFT: Final = tuple(map(Path, ("/etc/docker", "/opt/containerd", "/run/containerd", "/run/docker")))
"""Folders that an engine makes outside of its own, whatever its settings; all are empty but for
`KEY`."""
GROUPS: Final = Path("/sys/fs/cgroup")
GROUP: Final = "inorder-containers"
"""The control group of this engine's containers, at the top of each hierarchy."""
KEY: Final = "key.json"
"""The file with the name of an engine, which each makes that finds none."""


class Settings(NamedTuple):
    """The settings that an engine could change.

    Attributes:
        forwarding: The kernel's settings of forwarding, of bridges and of keys, by path.
        bridges: The network devices that are bridges.
        rules: The rules of the firewall.
        folders: Those of `LEFT`, and of the control groups of this engine's containers, that exist.
    """

    forwarding: dict[str, str]
    bridges: frozenset[str]
    rules: tuple[str, ...]
    folders: frozenset[Path]


def read(env: Mapping[str, str]) -> Settings:
    """Return the settings as they are now; `env` is the engine's environment."""
    files = [*NET.glob("ipv4/ip_forward"), *NET.glob("*/conf/*/forwarding")]
    files += [*NET.glob("bridge/*"), *NET.glob("ipv4/conf/*/route_localnet"), *KEYS.glob("*")]
    rules = run("iptables-save", env=env)
    return Settings(
        {str(file): file.read_text() for file in files},
        frozenset(line.split(":")[1].strip() for line in run_ip(env, "type", "bridge")),
        # Comments have the time, and chains their counters.
        tuple(line for line in rules.splitlines() if line.startswith("-")),
        frozenset(filter(Path.exists, [*LEFT, *_find_groups()])),
    )


def run_ip(env: Mapping[str, str], *words: str) -> list[str]:
    return run("ip", "-o", "link", "show", *words, env=env).splitlines()


def unmount(folder: Path) -> None:
    """Unmount the folder, and what is mounted in it, such as the network of a container."""
    for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
        place = line.split()[1]
        if f"{place}/".startswith(f"{folder}/"):
            run("umount", "--lazy", place)


def remove_leftovers(before: Settings) -> None:
    """Remove the folders that were not there before, but no files of an engine installed since."""
    for top in LEFT:
        if top not in before.folders:
            (top / KEY).unlink(missing_ok=True)
            remove_folders(top)
    clear_groups()


def clear_groups() -> None:
    """Remove the control groups of this engine's containers, which have ended."""
    for group in _find_groups():
        remove_folders(group)


def _find_groups() -> list[Path]:
    """Return the control groups of this engine's containers; they need not exist."""
    tops = (GROUPS, *filter(Path.is_dir, GROUPS.glob("*")))
    return [top / GROUP for top in tops]


def remove_folders(top: Path, kept: Collection[Path] = ()) -> None:
    """Remove empty folders, or control groups, from the innermost on, without those `kept`."""
    for name, _, _ in os.walk(top, topdown=False):
        if Path(name) not in kept:
            with suppress(OSError):
                Path(name).rmdir()
