"""Shows progress on standard error: a running count at a terminal, elsewhere a line every 10 s.

If standard output is a terminal too, the lines of the result would break a running count. Then
progress is plain lines as well.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

PLAIN_EVERY_S: Final = 10.0


@contextmanager
def show_count(what: str) -> Iterator[Callable[[int], None]]:
    """Yield a function that adds to the count of `what`, which standard error shows."""
    if not sys.stderr.isatty() or sys.stdout.isatty():
        yield _count_in_lines(what)
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.completed:,.0f} {task.description}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda count: progress.advance(task, count)


def _count_in_lines(what: str) -> Callable[[int], None]:
    """Return a function that counts, and prints a line at most every `PLAIN_EVERY_S`.

    Nothing is printed if the work takes less time.
    """
    counted = 0
    started_s = printed_s = time.monotonic()

    def advance(count: int) -> None:
        nonlocal counted, printed_s
        counted += count
        now_s = time.monotonic()
        if now_s - printed_s >= PLAIN_EVERY_S:
            printed_s = now_s
            print(f"{counted:,} {what}, {now_s - started_s:.0f} s", file=sys.stderr, flush=True)

    return advance
