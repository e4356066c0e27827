"""Judge each source by its worst trait, in a few words, such as `silent since 12:30 UTC`.

The traits are its clock, its silence, its duplicates and its restarts, in this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import Final

from recordings.audit.judged_clocks import JudgedClock
from recordings.audit.machine import Machine

S: Final = 1_000_000_000
LEAST_SILENCE_NS: Final = 30 * S
USUAL: Final = 3
"""A source counts as silent after this many times its longest earlier silence."""
RESENDS: Final = 100
"""A source counts as resending if one in this many of its records is a duplicate."""

FINE: Final = "fine"
UNKNOWN: Final = "unknown"
"""The verdict on a source without any fault if its clock cannot be judged."""
JUMPED: Final = "jumped"
SILENT: Final = "silent since"
DRIFTING: Final = "drifting"
RESENDING: Final = "resends"
RESTARTED: Final = "restarted"
NEARLY_TWO: Final = 1.995
"""The least number of a unit that is shown in it; a smaller amount is shown in a smaller unit."""
UNITS: Final = ((86_400 * S, "d"), (3_600 * S, "h"), (60 * S, "min"), (S, "s"), (1_000_000, "ms"))


def verdict_of(
    machine: Machine,
    clock: JudgedClock | None,
    end_ns: int,
    *,
    arrives: bool = True,
    zone: tzinfo = UTC,
) -> str:
    """Return the verdict on a source.

    Args:
        machine: The source.
        clock: The judgment of its clock, or None.
        end_ns: The last arrival of all sources.
        arrives: Whether arrivals are known, so that clocks can be judged.
        zone: The time zone of the time since when the source is silent.
    """
    if clock is not None and clock.is_wrong:
        if clock.jumps:
            return JUMPED
        if clock.drifts:
            return DRIFTING
        return (
            f"{'fast' if clock.offset_ns > 0 else 'slow'} by {format_short(abs(clock.offset_ns))}"
        )
    if machine.jumps.jumps(end_ns):
        return JUMPED
    silent_ns = end_ns - machine.at_ns
    if silent_ns > max(LEAST_SILENCE_NS, USUAL * machine.longest_silence_ns):
        return f"{SILENT} {clock_time(machine.at_ns, zone, '%H:%M %Z')}"
    if machine.copies * RESENDS >= machine.records and machine.copies:
        return RESENDING
    if machine.epochs.restarts:
        return RESTARTED
    return FINE if arrives else UNKNOWN


def format_short(amount_ns: float) -> str:
    """Return a duration with its unit, as a whole or in two digits: `41 s`, `2.4 min`, `850 ms`."""
    for size_ns, unit in UNITS:
        if amount_ns >= NEARLY_TWO * size_ns or amount_ns == size_ns or unit in ("s", "ms"):
            if amount_ns < size_ns and unit == "s":
                continue
            amount = amount_ns / size_ns
            return f"{amount:.2g} {unit}" if amount < 9.95 else f"{amount:,.0f} {unit}"
    raise AssertionError(amount_ns)


def format_in_one_unit(amounts_ns: Sequence[float]) -> tuple[list[str], str]:
    """Return durations in three digits, and their unit: the one that fits the longest of them."""
    longest_ns = max(amounts_ns, default=0)
    fitting = (unit for unit in UNITS if longest_ns >= NEARLY_TWO * unit[0])
    size_ns, unit = next(fitting, UNITS[-1])
    return [_format_digits(amount_ns / size_ns) for amount_ns in amounts_ns], unit


def _format_digits(amount: float) -> str:
    if amount >= 99.95:
        return f"{amount:,.0f}"
    return f"{amount:.3g}" if amount >= 0.01 or not amount else "< 0.01"


def clock_time(at_ns: int, zone: tzinfo = UTC, form: str = "%H:%M:%S %Z") -> str:
    """Return a time of day as text, by default to the second and with its zone: `12:30:00 UTC`."""
    try:
        return datetime.fromtimestamp(at_ns // S, zone).strftime(form)
    except (OverflowError, ValueError, OSError):
        return f"{at_ns / S:,.0f} s"
