"""Prints the known vulnerabilities of pinned packages: `python -m infra.audit PIP-AUDIT LOCK …`.

Each is printed with the versions that fix it, and the exit code is then 1. A package that could not
be looked up is reported, but does not fail the command, because an unreachable database says
nothing about the package.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

TIMEOUT_S: Final = 300.0
ASK_TIMEOUT_S: Final = 15


def main() -> None:
    program, *locks = sys.argv[1:]
    bad = False
    for lock in locks:
        faults, lines = judge(lock, ask(program, lock))
        bad |= faults
        print("\n".join(lines), file=sys.stderr)
    sys.exit(bad)


def ask(program: str, lock: str) -> dict[str, Any] | None:
    """Return pip-audit's report on a lock file; None if it gave none."""
    options = ["--require-hashes", "--disable-pip", "--progress-spinner", "off"]
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        command = [program, "--requirement", lock, *options, "--timeout", str(ASK_TIMEOUT_S)]
        try:
            subprocess.run(
                [*command, "--format", "json", "--output", str(answer)],
                capture_output=True,
                timeout=TIMEOUT_S,
                check=False,
            )
            found: dict[str, Any] = json.loads(answer.read_text())
        except (subprocess.TimeoutExpired, OSError, ValueError):
            return None
    return found


def judge(lock: str, answer: dict[str, Any] | None) -> tuple[bool, list[str]]:
    """Return whether there are known vulnerabilities, and the lines to print."""
    packages = answer["dependencies"] if answer else []
    skipped = [each["name"] for each in packages if "skip_reason" in each]
    lines = [
        f"{lock}: {each['name']} {each['version']}: {fault['id']}, fixed in"
        f" {', '.join(fault['fix_versions']) or 'no version yet'}"
        for each in packages
        for fault in each.get("vulns", ())
    ]
    faults = bool(lines)
    if len(skipped) == len(packages):
        lines.append(
            f"NOT AUDITED: {lock}: the database of known vulnerabilities could not be reached"
        )
    elif skipped:
        lines.append(f"NOT AUDITED: {lock}: {', '.join(skipped)} could not be looked up")
    elif not faults:
        lines.append(f"{lock}: no known faults in {len(packages)} packages")
    return faults, lines


if __name__ == "__main__":
    main()
