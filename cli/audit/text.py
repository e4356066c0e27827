"""Shows the findings as text for a terminal of 100 columns: the faults first, then the remedies."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from cli.printable import escape_unprintable
from recordings.audit.findings import Findings, count_of
from recordings.audit.machine import Machine
from recordings.audit.quantiles import RANKS, nearest_rank, sort_values
from recordings.audit.verdicts import FINE, UNKNOWN, format_in_one_unit, format_short

COLUMNS: Final = 100
SHOWN_MACHINES: Final = 10
BAR: Final = 24
NAME_CHARS: Final = 24
STYLES: Final = {FINE: "green", UNKNOWN: "dim"}
"""The style of a verdict that names no fault."""

DEFINITIONS: Final = (
    "The plain job: its watermark is the largest timestamp read, less the lateness, updated at each"
    " record. It drops a row if the row's window ends at or below the watermark before the row. It"
    " counts all other rows, including copies. Truth: each number once, in the window of its"
    " timestamp (the first copy's). A window is wrong if its count differs from the truth."
)


def format_findings(
    findings: Findings, head: str, said: Sequence[str], next_steps: Iterable[str]
) -> str:
    """Return the findings as text for a terminal.

    `head` names the input. `said` has sentences about the assumptions and limits of the audit.
    `next_steps` are commands to run next.
    """
    console = Console(width=COLUMNS, highlight=False)
    with console.capture() as capture:
        console.print(Text(f"{head}\n", style="bold"))
        for line in said:
            console.print(Text(line, style="dim"))
        for part in (
            _format_machines(findings),
            _format_disorder(findings),
            _format_windows(findings),
        ):
            console.print()
            console.print(part)
        console.print()
        console.print(Text("What to do", style="bold"))
        for key, value, why in findings.advice.settings():
            console.print(Text.assemble("  ", (f"{key}: {value}", "cyan"), f"  {why}"))
        for line in next_steps:
            console.print(Text(f"  {line}"), soft_wrap=True)
    return capture.get()


# -- machines --------------------------------------------------------------------------------------


def _format_machines(findings: Findings) -> RenderableType:
    table = _table("Machines, worst first")
    # Only this column is narrowed if the table is too wide. Names that begin alike stay apart.
    table.add_column("machine", max_width=NAME_CHARS, overflow="fold")
    table.add_column("verdict", no_wrap=True)
    numbered = ("copies", "missing", "out of\nseq", "re-\nstarts")
    shown = numbered if findings.counting.numbered else numbered[: findings.counting.has_ids]
    for name in ("records", "late", *shown, "clock", "windows\nwrong"):
        table.add_column(name, justify="right", no_wrap=True)
    for machine in findings.machines[:SHOWN_MACHINES]:
        table.add_row(*_machine_row(findings, machine))
    rest = findings.machines[SHOWN_MACHINES:]
    if rest:
        good = FINE if findings.asked.arrives else UNKNOWN
        count = sum(findings.verdicts[machine.name] == good for machine in rest)
        more = Text(f"… {len(rest):,} more", no_wrap=True, overflow="ellipsis")
        table.add_row(more, f"{count:,} {good}", style="dim")
    return table


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=None)


def _machine_row(findings: Findings, machine: Machine) -> Iterator[RenderableType]:
    clock = findings.clocks.get(machine.name)
    verdict = findings.verdicts[machine.name]
    yield Text(_shorten(escape_unprintable(machine.name)))
    yield Text(verdict, style=STYLES.get(verdict, "bold red"))
    yield f"{machine.records:,}"
    yield f"{machine.out_of_time:,}"
    if findings.counting.numbered:
        for name in ("copies", "missing", "out_of_sequence", "restarts"):
            yield f"{count_of(machine, name):,}" if machine.numbered else "-"
    elif findings.counting.has_ids:
        yield f"{machine.copies:,}" if machine.has_ids else "-"
    yield "-" if clock is None else format_signed(clock.offset_ns)
    yield f"{len(machine.wrong_windows):,}"


def _shorten(name: str) -> str:
    """Return the name, or its beginning and end if it would fill many lines."""
    is_long = len(name) > 2 * NAME_CHARS
    return f"{name[:NAME_CHARS]}…{name[-NAME_CHARS:]}" if is_long else name


def format_signed(offset_ns: float) -> str:
    """Return an offset with its sign and unit; an offset below a millisecond is 0."""
    if abs(offset_ns) < 1_000_000:
        return "0 ms"
    return f"{'+' if offset_ns > 0 else '-'}{format_short(abs(offset_ns))}"


# -- disorder and windows --------------------------------------------------------------------------


def _format_disorder(findings: Findings) -> RenderableType:
    late = sort_values(findings.late())
    share = len(late) / max(1, findings.counting.rows)
    words = Text.assemble(
        ("Disorder  ", "bold"),
        f"{100 * share:.1f} % of the records are older than the newest before them",
    )
    if late:
        words.append(f"\n          by {_format_quantiles(late)}")
    if findings.corrected is not None:
        due = sort_values(chain.from_iterable(map(findings.late_ns_of, findings.machines)))
        share = len(due) / max(1, findings.counting.rows)
        words.append(f"\n          with the clocks corrected: {100 * share:.1f} %")
        if due:
            words.append(f", by {_format_quantiles(due)}")
    if falls := sort_values(chain.from_iterable(each.set_back_ns for each in findings.machines)):
        most = max(findings.machines, key=lambda each: len(each.set_back_ns))
        words.append(
            f"\n          {len(falls):,} are set back, below an earlier number of their machine,"
            f"\n          by {_format_quantiles(falls, ('p99', 'max'))};"
            f" most of them from {escape_unprintable(most.name)}"
        )
    return words


def _format_quantiles(rising: array[int], names: Iterable[str] = RANKS) -> str:
    """Return the quantiles of ascending durations in one unit, such as `p50 12, max 40 s`."""
    names = [*names]
    amounts, unit = format_in_one_unit([nearest_rank(rising, RANKS[name]) for name in names])
    pairs = zip(names, amounts, strict=True)
    return ", ".join(f"{name.replace('p999', 'p99.9')} {text}" for name, text in pairs) + f" {unit}"


WINDOW_COLUMNS: Final = ("job", "wrong", "by rows dropped", "by copies counted")


def window_rows(findings: Findings) -> Iterator[tuple[str, str, str, str]]:
    """Yield a row of `WINDOW_COLUMNS` for each plain job, and two for inorder."""
    jobs, engine = findings.jobs, findings.engine
    for at, bound_ns in enumerate(jobs.bounds_ns):
        figures = jobs.figures(at)
        drops = _name_causes(figures.wrong_by_drops, figures.rows_dropped)
        copies = _name_causes(figures.wrong_by_copies, figures.copies_counted)
        yield f"plain, lateness {format_bound(bound_ns)}", f"{figures.wrong:,}", drops, copies
    yield "inorder, first answers", f"{len(engine.at_first):,}", "", ""
    yield "inorder, after corrections", f"{len(engine.at_last):,}", "", ""


def words_of_windows(findings: Findings) -> Iterator[str]:
    """Yield sentences about the waits of inorder, its truth and wrong clocks."""
    rising = sort_values(findings.engine.waits_ns)
    mean_ns = sum(rising) / len(rising) if rising else 0.0
    (mean, p99), unit = format_in_one_unit([mean_ns, nearest_rank(rising, 990)])
    yield f"inorder waits {mean} {unit} on average, {p99} {unit} at p99."
    yield f"Its truth: {truth_of(findings)}."
    yield describe_clock_errors(findings)


def _format_windows(findings: Findings) -> RenderableType:
    jobs, engine = findings.jobs, findings.engine
    length = format_short(jobs.length_ns)
    table = _table(f"What windows of {length} get wrong, of {jobs.windows:,}")
    table.add_column("job", no_wrap=True)
    table.add_column("wrong", justify="right", no_wrap=True)
    table.add_column("", width=BAR, no_wrap=True)
    for column in WINDOW_COLUMNS[2:]:
        table.add_column(column, justify="right")
    wrong = [*(jobs.figures(at).wrong for at in range(len(jobs.bounds_ns)))]
    wrong += [len(engine.at_first), len(engine.at_last)]
    for count, (job, text, *causes) in zip(wrong, window_rows(findings), strict=True):
        table.add_row(job, text, _draw_bar(count, jobs.windows), *causes)
    return Group(table, *map(Text, words_of_windows(findings)), Text(DEFINITIONS, style="dim"))


def format_bound(bound_ns: float) -> str:
    """Return a bound on lateness with its unit."""
    return format_short(bound_ns) if bound_ns else "0 s"


def _name_causes(windows: int, rows: int) -> str:
    return f"{windows:,} ({rows:,} rows)" if rows else "-"


def _draw_bar(wrong: int, of: int) -> Text:
    filled = min(BAR, -(-wrong * BAR // max(1, of)))
    return Text("█" * filled + "·" * (BAR - filled), style="red" if wrong else "green")


def truth_of(findings: Findings) -> str:
    if findings.advice.wrong_clocks:
        return "each number once, in the window of its corrected timestamp"
    if not findings.counting.numbered:
        if findings.counting.has_ids:
            return "each id once, in the window of its reported timestamp"
        return "each record once, in the window of its reported timestamp"
    return "each number once, in the window of its reported timestamp"


def describe_clock_errors(findings: Findings) -> str:
    if not findings.asked.arrives:
        return (
            "Wrong by a clock: unknown, because without arrival times no clock can be compared with"
            " others; only jumps are named, and no clock is corrected"
        )
    if not findings.wrong_by_clock:
        return "Wrong by a clock: none"
    count = len(findings.wrong_by_clock)
    words = (
        "Wrong by a clock: wrong clocks put records into the wrong window in"
        f" {count:,} window{'' if count == 1 else 's'}"
    )
    fast = any(clock.is_wrong and clock.offset_ns > 0 for clock in findings.clocks.values())
    return words + "; a fast clock moves a plain job's watermark too far ahead" * fast
