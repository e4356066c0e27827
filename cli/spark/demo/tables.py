"""The Spark demo's tables, and its account."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.table import Table

from cli.demo.clocks import WrongClock
from cli.demo.trouble import Injected
from cli.demo.watching import Outcome

if TYPE_CHECKING:
    from cli.spark.demo.analysis import Found
    from cli.spark.demo.live import SoFar

ROUNDING_NS: Final = 2


def closed(title: str, sources: Mapping[str, SoFar]) -> Table:
    shown = table(
        title,
        *("source", "events", "late", "missing", "per second", "behind, ms", "clock off, s"),
        "error, ms",
    )
    for source, seen in sources.items():
        shown.add_row(
            source,
            f"{seen.events:,}",
            str(seen.late),
            str(seen.missing),
            f"{seen.last_rate:.1f}",
            ms(seen.last_behind_ns),
            f"{-seen.last_offset_ns / 1e9:z,.3f}",
            ms(seen.last_error_ns),
        )
    return shown


def disorder(found: Found) -> Table:
    shown = table(
        "disorder, before and after",
        *("source", "raw records", "copies", "overtaken", "behind a younger one"),
        *("in order", "marked late", "behind, unmarked"),
    )
    for row in found.disorder:
        shown.add_row(row.source, *(f"{count:,}" for count in row[1:]))
    return shown


def clocks(found: Found, truth: Mapping[str, WrongClock]) -> Table:
    shown = table(
        "clocks: measured, and as they are",
        *("source", "rounds", "ahead, s", "to ms", "truly, s", "rate, ppm", "truly, ppm"),
        *("error of events, ms", "p99"),
    )
    for row in found.clocks:
        clock = truth[row.source]
        shown.add_row(
            row.source,
            str(row.rounds),
            f"{-(row.low_ns + row.high_ns) / 2e9:z,.4f}",
            f"± {ms((row.high_ns - row.low_ns) / 2)}",
            f"{clock.ahead_ns / 1e9:,.0f}",
            f"{row.skew_ppm:+.1f}",
            f"{clock.rate_ppm:+}",
            *map(ms, row.error_ns),
        )
    return shown


def latency(found: Found) -> Table:
    shown = table(
        "latency of events in order, ms: median and p99",
        *("source", "events", "on the way", "p99", "waiting", "p99", "in all", "p99"),
    )
    for row in found.latency:
        times = (*row.delay_ns, *row.wait_ns, *row.behind_ns)
        shown.add_row(row.source, f"{row.n:,}", *map(ms, times))
    return shown


def table(title: str, first: str, *others: str) -> Table:
    made = Table(title=title, title_justify="left")
    made.add_column(first, no_wrap=True)
    for name in others:
        made.add_column(name, justify="right")
    return made


def ms(length_ns: float) -> str:
    return f"{length_ns / 1e6:,.2f}"


@dataclass(frozen=True)
class Account:
    """(what, injected or expected, what Spark found)."""

    rows: list[tuple[str, int, int]]

    @classmethod
    def of(
        cls,
        injected: Injected,
        outcome: Outcome,
        truth: Mapping[str, WrongClock],
        found: Found,
        windows: tuple[int, int],
    ) -> Account:
        """`windows`: how many the stream closed, and how many of these a run over the whole
        topic has alike."""
        total = injected.total
        out = sum(row.in_order + row.late for row in found.disorder)
        copies = sum(row.copies for row in found.disorder)
        within = sum(
            abs(p.ref_ns - truth[p.source].true(p.ts_ns)) <= p.error_ns + ROUNDING_NS
            for p in found.passages
        )
        return cls(
            [
                ("records published", injected.postings, found.raw),
                ("... out, copies or dead", injected.postings, out + copies + found.dead),
                ("events in order or marked late", total.sent - total.lost, out),
                ("... as a plain reader counts them", outcome.out, out),
                ("copies", total.copies, copies),
                ("numbers that never came", total.lost, found.missing),
                ("unmarked events out of order", 0, sum(r.descents_after for r in found.disorder)),
                ("true time within the stated error", out, within),
                ("windows closed live, as over the whole", max(1, windows[0]), windows[1]),
            ]
        )

    @property
    def agrees(self) -> bool:
        return all(wanted == found for _, wanted, found in self.rows)

    def shown(self) -> Table:
        shown = table("the account", "", "injected", "found by Spark", "")
        for what, wanted, found in self.rows:
            shown.add_row(what, f"{wanted:,}", f"{found:,}", "" if wanted == found else "!")
        return shown
