"""Fetches Debian's packages by this machine's settings of apt, and unpacks them into a folder.

Nothing is installed. The package of an engine would start one on the default socket.
"""

from __future__ import annotations

import platform
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from infra.containers.command import run

APT: Final = Path("/etc/apt")
INSTALLED: Final = re.compile(r"(?m)^Inst (\S+)")


def codename() -> str | None:
    """Return the name of this machine's release of Debian; None on other systems."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return None
    return release.get("VERSION_CODENAME") if release.get("ID") == "debian" else None


def sources() -> dict[str, str]:
    """Return the machine's files of package sources, by name, without those of other projects."""
    files = [APT / "sources.list", *(APT / "sources.list.d").glob("*")]
    texts = {
        file.name: file.read_text(encoding="utf-8")
        for file in sorted(files)
        if file.suffix in (".list", ".sources") and file.is_file()
    }
    return {name: text for name, text in texts.items() if re.search(rf"\b{codename()}\b", text)}


def settings() -> str:
    """Return how this machine's apt reaches packages, as a file of settings."""
    lines = run("apt-config", "dump", "Acquire").splitlines()
    return "".join(f"{line}\n" for line in lines if not line.endswith(' "";'))


class Release:
    """Package lists of a release of Debian, from the machine's sources, in their own folder."""

    def __init__(self, name: str, folder: Path) -> None:
        self.sources = folder / "sources"
        lists = folder / "lists"
        for each in (self.sources, lists / "partial"):
            each.mkdir(parents=True, exist_ok=True)
        for file, text in sources().items():
            renamed = re.sub(rf"\b{codename()}\b", name, text)
            (self.sources / file).write_text(renamed, encoding="utf-8")
        self._options = [
            *(
                "-o",
                "Dir::Etc::sourcelist=/dev/null",
                "-o",
                f"Dir::Etc::sourceparts={self.sources}",
            ),
            *("-o", f"Dir::State::lists={lists}", "-o", "APT::Sandbox::User=root"),
            *("-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache="),
        ]
        self._get("update", "--quiet")

    def unpack(self, packages: Sequence[str], folder: Path) -> None:
        """Unpack the packages into the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        self._get("download", *packages, cwd=folder)
        for package in folder.glob("*.deb"):
            run("dpkg", "-x", str(package), str(folder))
            package.unlink()

    def find_absent(self, packages: Sequence[str]) -> list[str]:
        """Return which of the packages, and of those that they need, are not installed here."""
        told = self._get("install", "--simulate", "--no-install-recommends", *packages)
        return INSTALLED.findall(told)

    def _get(self, *words: str, cwd: Path | None = None) -> str:
        return run("apt-get", *self._options, *words, cwd=cwd)


def missing() -> str | None:
    """Return why no packages can be fetched here; None if they can."""
    if codename() is None or shutil.which("apt-get") is None:
        return "the packages of Debian's apt are needed, and this is another system"
    return None if sources() else f"no source of apt in {APT} names {codename()}"
