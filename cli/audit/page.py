"""Writes the findings as one HTML file with three pictures; it needs no network access.

The page lists the machines that `document` names, and follows the browser's light or dark setting.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Any, Final

from cli.audit.pictures import clock_picture, lateness_picture, windows_picture
from cli.audit.text import (
    DEFINITIONS,
    WINDOW_COLUMNS,
    format_bound,
    format_signed,
    window_rows,
    words_of_windows,
)
from cli.printable import escape_unprintable
from recordings.audit.findings import Findings
from recordings.audit.verdicts import FINE, UNKNOWN, format_short

STYLE: Final = """
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;margin:0 auto;max-width:72rem;
padding:1.5rem 1rem;background:#fff;color:#1b2733}
h1{font-size:1.4rem;margin:0 0 .2rem}h2{font-size:1.1rem;margin:2.2rem 0 .4rem}
p{margin:.4rem 0}.dim{color:#5d6b7a}.wide{overflow-x:auto}
.wide svg{width:100%;height:auto;min-width:46rem;max-width:920px}
.tiles{display:flex;flex-wrap:wrap;gap:.8rem;margin:1.2rem 0}
.tile{flex:1 1 9rem;border:1px solid #d9dfe6;border-radius:8px;padding:.6rem .8rem}
.tile b{display:block;font-size:1.5rem;line-height:1.3}.bad{color:#c2410c}.good{color:#0f766e}
table{border-collapse:collapse;font-size:.87rem;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .4rem;text-align:right;border-bottom:1px solid #d9dfe6;vertical-align:bottom}
td{white-space:nowrap}td:first-child{white-space:normal;overflow-wrap:anywhere}h1,p,li{overflow-wrap:anywhere}
th:first-child,td:first-child,td.l,th.l{text-align:left}
pre{background:#eef1f4;padding:.7rem .9rem;border-radius:8px;white-space:pre-wrap;font-size:.85rem;
overflow-wrap:anywhere}
@media (max-width:45rem){th{display:none}tr{display:block;padding:.5rem 0}
table,tbody{display:block}td,td.l,td:first-child{display:block;text-align:left;border:0;padding:0}
td:first-child{font-weight:600}td:empty{display:none}
td[data-label]::before{content:attr(data-label) ": "}}
@media (prefers-color-scheme:dark){body{background:#12181e;color:#e6ebf0}.dim{color:#9aa7b4}
.tile,th,td{border-color:#35404b}.bad{color:#fb7b3c}.good{color:#2dd4bf}pre{background:#1d252d}}
"""


def page_of(
    findings: Findings,
    document: dict[str, Any],
    head: str,
    said: Sequence[str],
    next_steps: Sequence[str],
) -> Iterator[str]:
    """Yield the lines of the HTML page.

    `document` is the object that `--json` prints. The other parameters are those of
    `text.format_findings`.
    """
    title = escape(escape_unprintable(head))
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width,initial-scale=1">'
    yield f"<title>{title}</title><style>{STYLE}</style></head><body>"
    yield f"<h1>{title}</h1>"
    yield from (f'<p class="dim">{escape(escape_unprintable(line))}</p>' for line in said)
    yield from _format_tiles(findings)
    windows = f"Windows of {format_short(findings.jobs.length_ns)} that are wrong"
    corrected = "" if findings.corrected is None else ", after wrong clocks are corrected"
    late = f"Lateness by machine{corrected}: p50 to p99, and the largest"
    pictures = (
        (windows, windows_picture(findings)),
        ("The clock of each machine, against the others", clock_picture(findings)),
        (late, lateness_picture(findings)),
    )
    for heading, picture in pictures:
        yield f'<h2>{heading}</h2><div class="wide">{picture}</div>'
    yield "<h2>What a plain job gets wrong, and inorder</h2>"
    yield from _format_windows(findings)
    yield "<h2>Machines, worst first</h2>"
    yield from _format_machines(document)
    yield "<h2>What to do</h2><ul>"
    for key, value, why in findings.advice.settings():
        yield f"<li><code>{key}: {value}</code>: {escape(why)}</li>"
    yield f"</ul><pre>{escape(chr(10).join(next_steps))}</pre></body></html>"


def _format_tiles(findings: Findings) -> Iterator[str]:
    jobs, engine = findings.jobs, findings.engine
    bound_ns, wrong = jobs.bounds_ns[findings.asked.shown], jobs.figures(findings.asked.shown).wrong
    share = f"{100 * wrong / max(1, jobs.windows):.0f} %"
    late = findings.total("out_of_time") / max(1, findings.counting.rows)
    bad = sum(verdict not in (FINE, UNKNOWN) for verdict in findings.verdicts.values())
    yield '<div class="tiles">'
    yield _format_tile(share, f"of windows wrong at lateness {format_bound(bound_ns)}", wrong)
    yield _format_tile(
        f"{len(engine.at_last):,}", "windows wrong with inorder", len(engine.at_last)
    )
    yield _format_tile(f"{100 * late:.1f} %", "of records out of time", None)
    yield _format_tile(f"{bad:,} of {len(findings.machines):,}", "machines to look at", bad)
    yield "</div>"


def _format_tile(figure: str, words: str, bad: int | None) -> str:
    kind = "" if bad is None else "bad" if bad else "good"
    return f'<div class="tile"><b class="{kind}">{figure}</b>{escape(words)}</div>'


def _format_windows(findings: Findings) -> Iterator[str]:
    yield f"<table>{_format_row('th', WINDOW_COLUMNS, WINDOW_COLUMNS)}"
    yield from (_format_row("td", WINDOW_COLUMNS, cells) for cells in window_rows(findings))
    yield "</table>"
    yield from (f"<p>{escape(words)}</p>" for words in words_of_windows(findings))
    yield f'<p class="dim">{escape(DEFINITIONS)}</p>'


def _format_row(tag: str, columns: Sequence[str], cells: Iterable[str], kind: str = "") -> str:
    """Return a row of a table; its first cell is a name, and the second one has the class `kind`.

    On narrow screens, each cell is on a line of its own, after the name of its column.
    """
    found = []
    for at, (column, text) in enumerate(zip(columns, cells, strict=True)):
        label = f' data-label="{column}"' if at else ""
        style = f' class="l {kind}"' if at == 1 and kind else ""
        found.append(f"<{tag}{label}{style}>{escape(escape_unprintable(text))}</{tag}>")
    return f"<tr>{''.join(found)}</tr>"


MACHINE_COLUMNS: Final = {
    "records": "records", "per_second": "per s", "out_of_time": "late", "copies": "copies",
    "missing": "missing", "out_of_sequence": "out of seq", "restarts": "restarts",
    "clock_ms": "clock", "clock_error_ms": "clock ±", "drift_ppm": "drift ppm", "jumps": "jumps",
    "longest_silence_ms": "longest silence", "rows_dropped": "rows dropped",
    "windows_wrong": "windows wrong",
}  # fmt: skip
NS_PER_MS: Final = 1e6


KINDS: Final = {FINE: "good", UNKNOWN: ""}
"""The class of a verdict that names no fault."""


def _format_machines(document: dict[str, Any]) -> Iterator[str]:
    columns = ["machine", "verdict", *MACHINE_COLUMNS.values()]
    yield f"<table>{_format_row('th', columns, columns, 'l')}"
    for name, machine in document["by_machine"].items():
        kind = KINDS.get(machine["verdict"], "bad")
        cells = [_format_figure(key, machine.get(key)) for key in MACHINE_COLUMNS]
        yield _format_row("td", columns, [name, machine["verdict"], *cells], kind or "l")
    yield "</table>"


def _format_figure(key: str, figure: Any) -> str:
    if figure is None:
        return "-"
    if key == "clock_ms":
        return format_signed(NS_PER_MS * figure)
    if key.endswith("_ms"):
        return format_short(NS_PER_MS * figure)
    return f"{round(figure, 1) + 0.0:,.1f}" if isinstance(figure, float) else f"{figure:,}"
