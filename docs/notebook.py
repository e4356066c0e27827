"""Make a Jupyter notebook from Python in cells.

    python docs/notebook.py FROM.py TO.ipynb

A cell begins with a line `# %%`, and a text cell with `# %% [markdown]`, whose lines are comments.
Lines before the first cell are left out. The Python is kept in git: it can be read, compared and
checked as code, and has no outputs.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, Final

CELL: Final = re.compile(r"^# %%(?P<text> \[markdown\])?$", re.M)
COMMENT: Final = re.compile(r"^# ?", re.M)
FORMAT: Final = {"nbformat": 4, "nbformat_minor": 5}
KERNEL: Final = {"name": "python3", "display_name": "Python 3", "language": "python"}


def notebook(source: str) -> dict[str, Any]:
    """Return the notebook in Jupyter's format 4.5."""
    _, *parts = CELL.split(source)
    cells = [
        _cell(number, content.strip("\n"), is_text=kind is not None)
        for number, (kind, content) in enumerate(zip(parts[::2], parts[1::2], strict=True))
    ]
    return {**FORMAT, "metadata": {"kernelspec": KERNEL}, "cells": cells}


def _cell(number: int, content: str, *, is_text: bool) -> dict[str, Any]:
    cell: dict[str, Any] = {"id": f"cell-{number}", "metadata": {}}
    if is_text:
        content = COMMENT.sub("", content)
        return {**cell, "cell_type": "markdown", "source": content.splitlines(keepends=True)}
    code = {"cell_type": "code", "execution_count": None, "outputs": []}
    return {**cell, **code, "source": content.splitlines(keepends=True)}


if __name__ == "__main__":
    made = notebook(Path(sys.argv[1]).read_text(encoding="utf-8"))
    Path(sys.argv[2]).write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
