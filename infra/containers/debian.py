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
OWN_URI: Final = re.compile(r"/debian(-security)?/*$")
OWN_COMPONENTS: Final = frozenset({"main", "contrib", "non-free", "non-free-firmware"})
OWN_KEY: Final = "/debian-archive-"
"""A part of the path of Debian's keys, which each of its images has."""

LINE: Final = re.compile(
    r"deb(-src)?\s+(\[(?P<options>[^]]*)\]\s*)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+(?P<components>[^#]+)"
)
FIELD: Final = re.compile(r"(?m)^([\w-]+):((?:.|\n[ \t])*)")
INSTALLED: Final = re.compile(r"(?m)^Inst (\S+)")


def codename() -> str | None:
    """Return the name of this machine's release of Debian; None on other systems."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return None
    return release.get("VERSION_CODENAME") if release.get("ID") == "debian" else None


def read_sources() -> dict[str, str]:
    """Return the machine's package sources that are Debian's own archive, by their file's name."""
    files = [APT / "sources.list", *(APT / "sources.list.d").glob("*")]
    own: dict[str, str] = {}
    for file in sorted(files):
        if file.suffix not in (".list", ".sources") or not file.is_file():
            continue
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".list":
            own[file.name] = "".join(filter(_is_own_line, text.splitlines(keepends=True)))
        else:
            own[file.name] = "\n".join(
                f"{stanza.strip()}\n" for stanza in re.split(r"\n\s*\n", text) if _is_own(stanza)
            )
    return {name: text for name, text in own.items() if text}


def _is_own_line(line: str) -> bool:
    """Return whether a line of a file `.list` is an entry of Debian's own archive."""
    found = LINE.match(line.strip())
    if found is None:
        return False
    key = re.search(r"signed-by=(\S+)", found["options"] or "")
    return _is_own(
        f"URIs: {found['uri']}\nSuites: {found['suite']}\nComponents: {found['components']}\n"
        + (f"Signed-By: {key[1]}\n" if key else "")
    )


def _is_own(stanza: str) -> bool:
    """Return whether a stanza of a file `.sources` is Debian's own archive of this release.

    The host may be any mirror or proxy. The path of a vendor's archive may end in /debian too. It
    has other components, or a key of its own, which base images lack.
    """
    lines = "".join(line for line in stanza.splitlines(keepends=True) if not line.startswith("#"))
    fields = {name.lower(): text.strip() for name, text in FIELD.findall(lines)}
    uris, components = fields.get("uris", "").split(), fields.get("components", "").split()
    return (
        fields.get("enabled", "yes").lower() not in ("no", "false", "off", "0")
        and bool(uris)
        and all(map(OWN_URI.search, uris))
        and OWN_COMPONENTS.issuperset(components)
        and re.search(rf"\b{codename()}\b", fields.get("suites", "")) is not None
        and OWN_KEY in fields.get("signed-by", OWN_KEY)
    )


def read_settings() -> str:
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
        for file, text in read_sources().items():
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
        self._run_apt_get("update", "--quiet")

    def unpack(self, packages: Sequence[str], folder: Path) -> None:
        """Unpack the packages into the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        self._run_apt_get("download", *packages, cwd=folder)
        for package in folder.glob("*.deb"):
            run("dpkg", "-x", str(package), str(folder))
            package.unlink()

    def find_absent(self, packages: Sequence[str]) -> list[str]:
        """Return which of the packages, and of those that they need, are not installed here."""
        told = self._run_apt_get("install", "--simulate", "--no-install-recommends", *packages)
        return INSTALLED.findall(told)

    def _run_apt_get(self, *words: str, cwd: Path | None = None) -> str:
        return run("apt-get", *self._options, *words, cwd=cwd)


def missing() -> str | None:
    """Return why no packages can be fetched here; None if they can."""
    if codename() is None or shutil.which("apt-get") is None:
        return "the packages of Debian's apt are needed, and this is another system"
    return None if read_sources() else f"no source of apt in {APT} is Debian's own of {codename()}"
