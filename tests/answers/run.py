"""Run cases with the packages of the tree that is the working directory.

Only the public interface is used (`inorder COMMAND`, `inorder.engine`), so one version of this
program runs in both trees. For each case it writes a file of lines: the output of the command and
its figures. For a topology, the records of an `Ordering` follow. The `Ordering` is restored from
its own snapshot at twenty random places, or after every `RESTORE_EVERY` events.
"""

from __future__ import annotations

import io
import json
import os
import resource
import runpy
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from random import Random
from typing import Any

RESTORES = 20
EVERY = int(os.environ.get("RESTORE_EVERY", "0"))
"""Number of events between two restores; 0: restore at `RESTORES` random places."""

OF_THE_RUN = ("seconds", "events_per_cpu_second")
"""Figures that describe the speed of a run."""

MOST_BYTES = 4 << 30
"""Memory limit of a case, which protects the machine."""


def printed(case: dict[str, Any]) -> Iterator[str]:
    """Yield the output of the command, its figures, and its end."""
    from cli.main import main

    written, err = io.BytesIO(), io.StringIO()
    out = io.TextIOWrapper(written)
    kept = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = out, err
    try:
        main([case["command"], *case["args"], case["events"]], prog_name="inorder")
        ended = "exit 0"
    except SystemExit as end:
        ended = f"exit {end.code or 0}"
    except Exception as wrong:  # noqa: BLE001 - a tree that breaks is told apart, not hidden
        ended = repr(wrong)
    finally:
        sys.stdout, sys.stderr = kept
    out.flush()
    yield from written.getvalue().decode().splitlines()
    for line in err.getvalue().splitlines():
        if line.startswith("{"):
            figures = json.loads(line)
            for name in OF_THE_RUN:
                figures.pop(name, None)
            yield from _figures(figures)
    yield ended


def _figures(figures: Any, path: str = "") -> Iterator[str]:
    """Yield one line for each figure, so that a difference is a single figure."""
    if isinstance(figures, dict):
        for name, value in figures.items():
            yield from _figures(value, f"{path}.{name}")
    else:
        yield f"figure {path} {figures!r}"


def in_pieces(case: dict[str, Any], rng: Random) -> Iterator[str]:
    """Yield the records of a run that is repeatedly restored from its own snapshot."""
    from inorder.engine import Ordering, parse

    own = runpy.run_path(case["functions"])["detectors"] if case["functions"] else None
    topology = parse(Path(case["topology"]).read_text(), detectors=own)
    lines = [json.loads(line) for line in Path(case["events"]).read_text().splitlines()]
    cuts = [*range(EVERY, len(lines), EVERY)] if EVERY else []
    cuts = cuts or sorted(rng.randrange(len(lines) + 1) for _ in range(RESTORES))
    run = Ordering(topology)
    for begin, end in zip([0, *cuts], [*cuts, len(lines)], strict=True):
        for line in lines[begin:end]:
            yield from map(_line, run.feed(line))
        if end < len(lines):
            kept = run.snapshot()
            run = Ordering(topology)
            run.restore(kept)
    yield from map(_line, run.close())
    yield repr(run.balance())


def _line(record: Any) -> str:
    """Return a record as a line; a field without a value is left out."""
    values = {field.name: getattr(record, field.name) for field in fields(record)}
    known = {name: value for name, value in values.items() if value is not None}
    return f"{type(record).__name__} {known}"


def main(asked: Path, folder: Path) -> None:
    """Write the answers of each case that `asked` lists into the folder, as `NUMBER.txt`."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    for number, case in enumerate(json.loads(asked.read_text())):
        lines = list(printed(case))
        if case["topology"]:
            lines.append("in pieces")
            try:
                lines += in_pieces(case, Random(f"{number} {case['name']}"))
            except Exception as wrong:  # noqa: BLE001
                lines.append(repr(wrong))
        part = folder / f"{number}.part"
        part.write_text("\n".join(lines) + "\n")
        part.rename(folder / f"{number}.txt")


if __name__ == "__main__":
    sys.path[0] = str(Path.cwd())
    main(Path(sys.argv[1]), Path(sys.argv[2]))
