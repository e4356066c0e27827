"""Draws the three pictures of an audit, as self-contained SVG that is readable in light and dark.

- lateness by machine, on a logarithmic scale
- the clock of each machine over time
- wrong windows over time, with a strip for each bound, one for clocks and two for inorder
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from datetime import tzinfo
from html import escape
from itertools import accumulate
from math import floor, log10
from typing import Final

from cli.audit.remarks import middle_windows
from cli.audit.text import format_bound, format_signed
from cli.printable import escape_unprintable
from recordings.audit.findings import Findings
from recordings.audit.judged_clocks import JudgedClock
from recordings.audit.quantiles import nearest_rank, sort_values
from recordings.audit.verdicts import clock_time, format_short

WIDTH: Final = 920
LEFT: Final = 190
RIGHT: Final = 290
PLOT: Final = WIDTH - LEFT - RIGHT
ROW: Final = 24
HEAD: Final = 16
MAX_ROWS: Final = 12
MAX_LINES: Final = 60
MAX_COLOURED: Final = 6
MAX_BINS: Final = 120
NAME_WIDTH: Final = 130
"""The maximum width of a name in pixels."""
WIDE: Final = 13
NARROW: Final = 7
"""The width of wide and of other characters in pixels, at most, in the font of the pictures."""
S: Final = 1_000_000_000
MS: Final = 1_000_000

STYLE: Final = (
    ".au{--ink:#1b2733;--dim:#5d6b7a;--grid:#d9dfe6;--bad:#c2410c;--warn:#e8985e;--good:#0f766e;"
    "--faint:#eef1f4;font:12px system-ui,-apple-system,sans-serif}"
    "@media (prefers-color-scheme:dark){.au{--ink:#e6ebf0;--dim:#9aa7b4;--grid:#35404b;"
    "--bad:#fb7b3c;--warn:#b9672f;--good:#2dd4bf;--faint:#252d35}}"
    ".au text{fill:var(--ink)}.au .dim{fill:var(--dim)}.au .grid{stroke:var(--grid)}"
    ".au .faint{fill:var(--faint)}.au .bad{fill:var(--bad)}.au .warn{fill:var(--warn)}"
    ".au .good{fill:var(--good)}.au .line{fill:none;stroke-width:1.5;stroke:var(--dim);opacity:.55}"
    ".au .wrong{fill:none;stroke-width:2.5;stroke:var(--bad)}.au .b{font-weight:600}"
)


def lateness_picture(findings: Findings) -> str:
    """Return a picture of the lateness of the machines with the largest lateness.

    Wrong clocks are corrected first, because one fast clock makes all other machines late.

    Each machine has a bar from the median to the 99th percentile, and a mark at the largest
    lateness.
    """
    late = [
        (machine.name, sort_values(late_ns))
        for machine in findings.machines
        if (late_ns := findings.late_ns_of(machine))
    ]
    late.sort(key=lambda each: nearest_rank(each[1], 990), reverse=True)
    shown = late[:MAX_ROWS]
    if not shown:
        return _draw_sentence("no record is late", "Lateness by machine")
    low = floor(log10(max(MS, min(nearest_rank(each, 500) for _, each in shown))))
    high = log10(max(10 * 10**low, *(each[-1] for _, each in shown)))

    def x(amount_ns: int) -> float:
        return LEFT + PLOT * (log10(max(amount_ns, 10**low)) - low) / max(high - low, 1e-9)

    bottom = HEAD + ROW * len(shown)
    parts = []
    for power in range(low, floor(high) + 1):
        at = x(10**power)
        parts.append(f'<path class="grid" d="M{at:.1f} {HEAD}V{bottom}"/>')
        parts.append(_text(at, bottom + 16, format_short(10**power), "dim", "middle"))
    for row, (name, rising) in enumerate(shown):
        top = HEAD + row * ROW
        middle, most = nearest_rank(rising, 500), nearest_rank(rising, 990)
        width = max(2.0, x(most) - x(middle))
        label = f"p99 {format_short(most)}, {len(rising):,} late"
        parts.append(_text(LEFT - 8, top + 16, _name(name), "", "end"))
        parts.append(_draw_bar("warn", x(middle), top + 6, width, 12, ' rx="2"'))
        parts.append(_draw_bar("bad", x(rising[-1]) - 1.5, top + 4, 3, 16))
        parts.append(_text(WIDTH - RIGHT + 8, top + 16, label, "dim"))
    if len(late) > len(shown):
        more = f"and {len(late) - len(shown):,} more"
        parts.append(_text(WIDTH - RIGHT + 8, bottom + 16, more, "dim"))
    return _make_svg(parts, bottom + 26, "Lateness by machine")


def clock_picture(findings: Findings) -> str:
    """Return a picture of how far each clock is ahead of the others; wrong clocks are coloured."""
    clocks = {name: clock for name, clock in findings.clocks.items() if len(clock.course) > 1}
    if not clocks:
        words = "clocks cannot be compared: one machine, too few records, or no arrival times"
        return _draw_sentence(words, "Clocks over time")
    wrong = sorted(
        (name for name, clock in clocks.items() if clock.is_wrong),
        key=lambda name: -abs(clocks[name].offset_ns),
    )
    shown = [name for name in clocks if name not in wrong][:MAX_LINES] + wrong[::-1]
    points = [stretch for name in shown for stretch in clocks[name].course]
    first, last = min(p.at_ns for p in points), max(p.at_ns for p in points)
    low, high = _find_range([clocks[name] for name in shown])
    height = 180

    def x(at_ns: int) -> float:
        return LEFT + PLOT * (at_ns - first) / max(last - first, 1)

    def y(offset_ns: float) -> float:
        inside = min(max(offset_ns, low), high)
        return HEAD + height * (high - inside) / (high - low)

    parts = []
    for mark_ns in _choose_marks(low, high):
        parts.append(f'<path class="grid" d="M{LEFT} {y(mark_ns):.1f}H{WIDTH - RIGHT}"/>')
        parts.append(_text(LEFT - 8, y(mark_ns) + 4, format_signed(mark_ns), "dim", "end"))
    for name in shown:
        kind = "wrong" if name in wrong else "line"
        d = "L".join(f"{x(p.at_ns):.1f} {y(p.reading_ns):.1f}" for p in clocks[name].course)
        parts.append(f'<path class="{kind}" d="M{d}"><title>{_name(name)}</title></path>')
    taken: list[float] = []
    for name in wrong[:MAX_COLOURED]:
        at = _find_free_height(y(clocks[name].course[-1].reading_ns) + 4, taken)
        words = f"{_name(name)}: {findings.verdicts[name]}"
        parts.append(_text(WIDTH - RIGHT + 6, at, words, "b"))
    right = len(clocks) - len(wrong)
    if right:
        at = _find_free_height(y(0) + 4, taken)
        parts.append(_text(WIDTH - RIGHT + 6, at, f"{right:,} within 1 s", "dim"))
    parts += _draw_times(first, last, HEAD + height + 16, findings.asked.zone)
    return _make_svg(parts, max(HEAD + height + 26, *(at + 10 for at in taken)), "Clocks over time")


def windows_picture(findings: Findings) -> str:
    """Return a picture of wrong windows over time; darker means a larger share of wrong windows.

    There is a strip for each bound, one for wrong clocks if there are any, and two for inorder.
    """
    jobs = findings.jobs
    windows = middle_windows(findings)
    if not windows:
        return _draw_sentence("no windows", "Wrong windows over time")
    first, last = windows[0], windows[-1] + 1
    bins = min(MAX_BINS, last - first)
    strips: list[tuple[str, Collection[int], str]] = [
        (f"lateness {format_bound(bound_ns)}", jobs.wrong(at), "bad")
        for at, bound_ns in enumerate(jobs.bounds_ns)
    ]
    if findings.wrong_by_clock:
        strips.append(("by a wrong clock", findings.wrong_by_clock, "warn"))
    strips.append(("inorder, first answers", findings.engine.at_first, "bad"))
    strips.append(("inorder, after corrections", findings.engine.at_last, "bad"))
    in_bin = _bin(windows, first, last, bins)
    parts = []
    for row, (label, wrong, kind) in enumerate(strips):
        top = HEAD + row * (ROW + 2) + (8 if label.startswith("inorder") else 0)
        parts.append(_text(LEFT - 8, top + 16, label, "", "end"))
        parts.append(_draw_bar("faint", LEFT, top, PLOT, ROW - 2))
        inside = [window for window in wrong if first <= window < last]
        for at, count in _bin(inside, first, last, bins).items():
            share = min(1.0, count / max(1, in_bin[at]))
            dark = f' opacity="{0.25 + 0.75 * share:.2f}"'
            parts.append(
                _draw_bar(kind, LEFT + PLOT * at / bins, top, PLOT / bins + 0.2, ROW - 2, dark)
            )
        said = f"{len(wrong):,} of {jobs.windows:,} wrong" if wrong else "none wrong"
        parts.append(_text(WIDTH - RIGHT + 8, top + 16, said, "b" if wrong else "good b"))
    bottom = HEAD + len(strips) * (ROW + 2) + 8
    begin_ns, end_ns = first * jobs.length_ns, last * jobs.length_ns
    parts += _draw_times(begin_ns, end_ns, bottom + 14, findings.asked.zone)
    return _make_svg(parts, bottom + 24, "Wrong windows over time")


def _bin(windows: Iterable[int], first: int, last: int, bins: int) -> Counter[int]:
    return Counter((window - first) * bins // (last - first) for window in windows)


def _find_range(clocks: Iterable[JudgedClock]) -> tuple[float, float]:
    """Return the range of clock offsets to draw: all levels of the clocks, and a margin."""
    levels = [level_ns for clock in clocks for _, level_ns in clock.segments]
    low, high = min(0, *levels), max(0, *levels)
    room = max(0.12 * (high - low), 0.1 * S)
    return low - room, high + room


def _choose_marks(low: float, high: float) -> Iterator[float]:
    step = 10 ** floor(log10((high - low) / 2))
    while (high - low) / step > 5:
        step *= 2
    mark = -(-low // step) * step
    while mark <= high:
        yield mark
        mark += step


def _find_free_height(at: float, taken: list[float]) -> float:
    """Return the first height from `at` downwards at which a line of text overlaps none in `taken`.

    The height is added to `taken`.
    """
    while any(abs(at - other) < 14 for other in taken):
        at += 14
    taken.append(at)
    return at


def _draw_times(first_ns: int, last_ns: int, y: float, zone: tzinfo) -> Iterator[str]:
    yield _text(LEFT, y, clock_time(first_ns, zone), "dim")
    yield _text(WIDTH - RIGHT, y, clock_time(last_ns, zone), "dim", "end")


def _name(name: str) -> str:
    """Return a name, cut to `NAME_WIDTH`."""
    shown = escape_unprintable(name)
    widths = accumulate(WIDE if is_wide(each) else NARROW for each in shown)
    fitting = sum(width <= NAME_WIDTH for width in widths)
    return shown if fitting == len(shown) else f"{shown[: fitting - 2]}…"


def is_wide(character: str) -> bool:
    return character in "MWm@%&" or not character.isascii()


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    style = f' class="{kind}"' if kind else ""
    place = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}"{style}{place}>{escape(words)}</text>'


def _draw_bar(kind: str, x: float, y: float, width: float, height: float, more: str = "") -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{height}"{more}/>'


def _draw_sentence(words: str, title: str) -> str:
    """Return a picture that shows only the sentence `words`, for findings without data."""
    return _make_svg([_text(LEFT, HEAD + 12, words)], 40, title)


def _make_svg(parts: Iterable[str], height: float, title: str) -> str:
    return (
        f'<svg class="au" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}"'
        f' width="{WIDTH}" role="img" aria-label="{title}"><title>{title}</title>'
        f"<style>{STYLE}</style>{''.join(parts)}</svg>"
    )
