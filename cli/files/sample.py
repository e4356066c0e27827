"""`inorder sample` writes small recordings and their topology files, to try other commands on."""

from __future__ import annotations

import shlex
from importlib.resources import files
from pathlib import Path
from typing import Final

import click

from cli.topology_file import Refused, refusing, text_of, write_new

NAMES: Final = ("telemetry.csv", "telemetry.yaml", "absence.jsonl", "absence.yaml")
NEXT: Final = """\
next: inorder audit {0}
      inorder replay --topology {1} {0}
"""


@click.command("sample")
@click.argument("folder", default=".", type=click.Path(file_okay=False, path_type=Path))
def command(folder: Path) -> None:
    """Write small recordings and their topology files to FOLDER, to try other commands on.

    In telemetry.csv, five simulated machines send records that are late, doubled or missing. One
    has a fast clock, and one restarts. Other files of these names are not replaced.
    """
    there = files("cli.files") / "sample"
    texts = {folder / name: there.joinpath(name).read_text("utf-8") for name in NAMES}
    with refusing(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        if path.exists() and text_of(str(path), str(path)) != text:
            raise Refused(f"{path} has other contents; name another FOLDER, or move it away")
    for path, text in texts.items():
        write_new("FOLDER", str(path), text)
    click.echo(f"written: {', '.join(map(str, texts))}")
    click.echo(NEXT.format(*(shlex.quote(str(path)) for path in texts)), nl=False)
