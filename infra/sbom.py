"""Writes a release's bill of materials (CycloneDX 1.6, JSON): `python -m infra.sbom FILE LOCK...`.

The components are the packages that the lock files pin, and the package `inorder` of this
repository, a part of the product `inorder-engine`. A pinned package has its name, version, package
URL, and the SHA-256 of every file that the lock file accepts for it. `pip install --require-hashes`
installs exactly one of these files. The dependencies come from the comments of the lock files.

The output depends only on the lock files and on the version of this tree. Even the serial
number is derived from the content.
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from inorder import __version__

ROOT: Final = Path(__file__).parents[1]
PRODUCT: Final = "inorder-engine"
PIN: Final = re.compile(
    r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?==(?P<version>[^\s;\\]+)"
    r"(?:\s*;(?P<marker>[^\\]*))?"
)
HASH: Final = re.compile(r"--hash=sha256:(?P<digest>[0-9a-f]{64})")
NEEDED_BY: Final = re.compile(r"^    # (?:via| ) (?P<name>[a-z0-9][a-z0-9._-]*)")
NAMESPACE: Final = uuid.UUID("6f0a1c3e-5d7b-4f2a-9c8e-1b3d5f7a9c0e")
"""The namespace of the document's serial number, which is a UUID of its content."""


@dataclass
class Pinned:
    """A package of a lock file; `marker` says where it is installed, "" means everywhere."""

    name: str
    version: str
    marker: str = ""
    digests: set[str] = field(default_factory=set)
    needed_by: set[str] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"pkg:pypi/{self.name}@{self.version}"


def main() -> None:
    out, *locks = sys.argv[1:]
    found = bom(read("".join((ROOT / lock).read_text(encoding="utf-8") for lock in locks)))
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    Path(out).write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{out}: {len(found['components'])} components", file=sys.stderr)


def read(text: str) -> list[Pinned]:
    """Return the packages that the lock files pin, sorted by name and version.

    A package may have several versions, each for some Pythons or platforms.
    """
    found: dict[tuple[str, str], Pinned] = {}
    at: Pinned | None = None
    for line in text.splitlines():
        if pin := PIN.match(line):
            new = Pinned(pin["name"], pin["version"], (pin["marker"] or "").strip())
            at = found.setdefault((new.name, new.version), new)
            at.marker = at.marker and new.marker
        elif at is not None:
            at.digests.update(HASH.findall(line))
            if by := NEEDED_BY.match(line):
                at.needed_by.add(by["name"])
    return [found[place] for place in sorted(found)]


def bom(pinned: Sequence[Pinned]) -> dict[str, Any]:
    """Return the bill of materials of the product and these packages."""
    product = f"pkg:pypi/{PRODUCT}@{__version__}"
    light = f"pkg:pypi/inorder@{__version__}"
    own = {"type": "library", "name": "inorder", "version": __version__, "purl": light}
    needs: dict[str, set[str]] = {product: {light}, light: set()}
    named: dict[str, list[str]] = {}
    for each in pinned:
        named.setdefault(each.name, []).append(each.url)
    for each in pinned:
        needs.setdefault(each.url, set())
        parents = [url for name in each.needed_by for url in named.get(name, [product])]
        for parent in parents or [product]:
            needs.setdefault(parent, set()).add(each.url)
    document: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": PRODUCT,
                "version": __version__,
                "purl": product,
                "bom-ref": product,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": [
            {**own, "bom-ref": light, "licenses": [{"license": {"id": "Apache-2.0"}}]},
            *(_component(each) for each in pinned),
        ],
        "dependencies": [
            {"ref": ref, "dependsOn": sorted(parts)} for ref, parts in sorted(needs.items())
        ],
    }
    text = json.dumps(document, sort_keys=True)
    return {**document, "serialNumber": f"urn:uuid:{uuid.uuid5(NAMESPACE, text)}"}


def _component(each: Pinned) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": "library",
        "name": each.name,
        "version": each.version,
        "purl": each.url,
        "bom-ref": each.url,
        "scope": "optional" if each.marker else "required",
        "hashes": [{"alg": "SHA-256", "content": digest} for digest in sorted(each.digests)],
    }
    if each.marker:
        found["properties"] = [{"name": "inorder:marker", "value": each.marker}]
    return found


if __name__ == "__main__":
    main()
