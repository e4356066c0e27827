"""Checks the form of a commit's message: `python -m infra.commit_message FILE`.

The hook `commit-msg` of .pre-commit-config.yaml runs it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

MAX_SUBJECT_CHARS: Final = 72


def find_faults(message: str) -> list[str]:
    """Return what is wrong with a message, one sentence each."""
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    subject, *body = lines or [""]
    faults = {
        "it is empty": not subject,
        f"it has {len(subject)} characters, more than {MAX_SUBJECT_CHARS}": (
            len(subject) > MAX_SUBJECT_CHARS
        ),
        "it has a semicolon; make two commits": ";" in subject,
        "it ends with a full stop": subject.endswith("."),
        "it does not begin with a capital letter": bool(subject) and not subject[0].isupper(),
    }
    found = [f"the subject: {fault}" for fault, is_so in faults.items() if is_so]
    if body and body[0]:
        found.append("the second line is not empty")
    return found


def main() -> None:
    faults = find_faults(Path(sys.argv[1]).read_text(encoding="utf-8"))
    for fault in faults:
        print(fault, file=sys.stderr)
    raise SystemExit(bool(faults))


if __name__ == "__main__":
    main()
