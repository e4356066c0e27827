"""Writes the list of the image's packages into NOTICE: `python -m infra.notice`.

The list has every package that the image's lock file pins, with the licence from the metadata in
this environment. Packages that are not installed here, such as those for other platforms, are
listed without a licence. `make lock` runs this module.
"""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
LOCK: Final = ROOT / "infra" / "locks" / "run.txt"
BEGIN: Final = "Python packages in the image:\n"
ELSEWHERE: Final = "see its own files"
LONGEST: Final = 60
"""Maximum length of a licence's name; a longer text is the licence itself."""


def main() -> None:
    notice = ROOT / "NOTICE"
    head = notice.read_text().partition(BEGIN)[0]
    lines = [f"  {name}: {licence(name)}\n" for name in list_pinned()]
    notice.write_text("".join([head, BEGIN, "\n", *lines]))


def list_pinned() -> list[str]:
    """Return the names of the packages that the image's lock file pins, ascending."""
    return re.findall(r"^([a-z0-9][a-z0-9.-]*)==", LOCK.read_text(), re.M)


def licence(name: str) -> str:
    try:
        about = metadata(name).json
    except PackageNotFoundError:
        return ELSEWHERE
    named = about.get("license_expression") or about.get("license") or ""
    if isinstance(named, str) and named and "\n" not in named and len(named) <= LONGEST:
        return named
    found = [
        each.rpartition("::")[2].strip()
        for each in about.get("classifier", ())
        if each.startswith("License ::")
    ]
    return " / ".join(found) or ELSEWHERE


if __name__ == "__main__":
    main()
