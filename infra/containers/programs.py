"""Finds the programs of a Docker engine, and unpacks Debian's packages where they are absent.

The machine's own programs are preferred. The plugin `compose` comes from Debian 13, because Debian
12 has only the former program `docker-compose`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

from cli.local.lock import lock_file
from cli.local.maven import cache_folder
from infra.containers import debian

PROGRAMS: Final = {
    "docker": "docker.io",
    "dockerd": "docker.io",
    "docker-proxy": "docker.io",
    "containerd": "containerd",
    "runc": "runc",
    "iptables": "iptables",  # An engine without rules still redirects DNS inside each container.
    "ip": "iproute2",
}
"""Debian's package of each program."""

MAKER: Final = {"mmdebstrap": "mmdebstrap"}
"""The program that makes base images, and its package."""

PLUGIN: Final = "docker-compose"
PLUGIN_RELEASE: Final = "trixie"
LOCK_TIMEOUT_S: Final = 1200.0


def folder() -> Path:
    """Return the folder of the engine, its images and its programs, in the project's cache."""
    return cache_folder().resolve() / "containers"


def is_pulled() -> bool:
    """Return whether the images come from a registry."""
    return os.environ.get("INORDER_IMAGES") == "pull"


def missing() -> str | None:
    """Return why the programs cannot be had here; None if they can."""
    if all(map(shutil.which, _required_programs())) and _has_compose():
        return None
    return debian.missing()


class Environment(NamedTuple):
    """The variables with which clients, and the engine, find their programs."""

    client: dict[str, str]
    engine: dict[str, str]


def environment() -> Environment:
    """Return how the programs are found; unpack those that are absent.

    Raises CommandFailed if a package cannot be had.
    """
    unpacked, config = folder() / "programs", folder() / "config"
    with lock_file(folder() / "programs.lock", LOCK_TIMEOUT_S):
        _unpack_programs(unpacked)
        has_own_plugin = _unpack_compose(unpacked, config)
    # The machine's own programs come first.
    path = f"{os.environ['PATH']}:{unpacked / 'usr/bin'}:{unpacked / 'usr/sbin'}"
    client = {"PATH": path} | ({"DOCKER_CONFIG": str(config)} if has_own_plugin else {})
    if all(map(shutil.which, _required_programs())):
        return Environment(client, client)
    libraries = next((unpacked / "usr/lib").glob("*-linux-gnu"), unpacked)
    own = {"LD_LIBRARY_PATH": str(libraries)}
    extensions = libraries / "xtables"
    if extensions.is_dir():  # The machine's own iptables finds its own.
        own["XTABLES_LIBDIR"] = str(extensions)
    return Environment(client, client | own)


def _required_programs() -> dict[str, str]:
    return PROGRAMS if is_pulled() else PROGRAMS | MAKER


def _unpack_programs(into: Path) -> None:
    absent = {
        package for name, package in _required_programs().items() if shutil.which(name) is None
    }
    mark = into / "unpacked.txt"
    wanted = " ".join(sorted(absent))
    if not absent or (mark.exists() and mark.read_text() == wanted):
        return
    shutil.rmtree(into, ignore_errors=True)
    name = debian.codename()
    assert name is not None, "debian.missing() tells of it before"
    release = debian.Release(name, folder() / "apt" / name)
    release.unpack(release.find_absent(sorted(absent)), into)
    multi = into / "usr/sbin/xtables-nft-multi"
    for link in ("iptables", "iptables-save", "ip6tables"):
        if multi.exists():  # An installation would link these.
            multi.with_name(link).symlink_to(multi.name)
    mark.write_text(wanted)


def _unpack_compose(into: Path, config: Path) -> bool:
    """Unpack the plugin into `config` if the machine has none; return whether it is there."""
    plugin = config / "cli-plugins" / PLUGIN
    if plugin.exists():
        return True
    if _has_compose():
        return False
    plugin.parent.mkdir(parents=True, exist_ok=True)
    unpacked = into.with_name("plugins")
    debian.Release(PLUGIN_RELEASE, folder() / "apt" / PLUGIN_RELEASE).unpack([PLUGIN], unpacked)
    (found,) = (file for file in unpacked.rglob(f"cli-plugins/{PLUGIN}") if file.is_file())
    plugin.unlink(missing_ok=True)
    plugin.symlink_to(found)
    return True


def _has_compose() -> bool:
    if shutil.which("docker") is None:
        return False
    asked = ["docker", "compose", "version"]
    return not subprocess.run(asked, check=False, capture_output=True, timeout=60).returncode
