"""Write the findings as one JSON object (`inorder audit --json`).

Some values may be null: `copies`, `missing`, `out_of_sequence` and `restarts` without numbers, and
`clock_ms` without measurements. `seq_bits` is null if numbers do not wrap, or wrap at different
widths. Durations are in ms. Up to `MAX_NAMED` sources are listed by name, and the others together
as `…`.
"""

from __future__ import annotations

from typing import Any, Final

from recordings.audit.counting import Counting
from recordings.audit.findings import MAX_NAMED, REST, Findings, count_of
from recordings.audit.machine import Machine
from recordings.audit.quantiles import NS_PER_MS, nearest_rank, quantiles_ms, sort_values

S: Final = 1e9
OF_NUMBERS: Final = frozenset({"copies", "missing", "out_of_sequence", "restarts"})
COUNTS: Final = ("copies", "missing", "out_of_sequence", "out_of_time")


def make_document(findings: Findings) -> dict[str, Any]:
    """Return the findings as plain values, ready for JSON."""
    seq_range = findings.advice.seq_range
    return {
        "records": findings.records,
        "unreadable": findings.unread.count,
        "machines": len(findings.machines),
        **{name: _count_or_null(findings.counting, name, findings.total(name)) for name in COUNTS},
        "late_ms": quantiles_ms(findings.late()),
        "by_machine": _describe_machines(findings),
        "windows": _describe_windows(findings),
        "inorder": _describe_engine(findings),
        "seq_bits": seq_range and seq_range.bits,
        "seq_range": None if seq_range is None else str(seq_range),
        "clocks_by": "arrivals" if findings.asked.arrives else "lines",
        "order": "each partition" if findings.asked.order.apart else "all records",
        "unread": {
            reason: {"count": dead.count, "first": dead.offset, "detail": dead.detail}
            for reason, dead in findings.unread.deaths.reasons()
        },
    }


def _count_or_null(seen: Counting | Machine, name: str, count: int) -> int | None:
    if seen.numbered or name not in OF_NUMBERS or (name == "copies" and seen.has_ids):
        return count
    return None


def _describe_machines(findings: Findings) -> dict[str, dict[str, Any]]:
    named = {each.name: _describe_machine(findings, each) for each in findings.machines[:MAX_NAMED]}
    if rest := findings.machines[MAX_NAMED:]:
        named[REST] = {
            "machines": len(rest),
            "records": sum(machine.records for machine in rest),
            **{
                name: _count_or_null(
                    findings.counting, name, sum(count_of(each, name) for each in rest)
                )
                for name in COUNTS
            },
            "clock_ms": None,
            "clock_error_ms": None,
            "verdict": "",
        }
    return named


def _describe_machine(findings: Findings, machine: Machine) -> dict[str, Any]:
    clock = findings.clocks.get(machine.name)
    lasts_ns = machine.at_ns - (machine.first_ns or 0)
    return {
        "records": machine.records,
        **{name: _count_or_null(machine, name, count_of(machine, name)) for name in COUNTS},
        "clock_ms": None if clock is None else clock.offset_ns / NS_PER_MS,
        "clock_error_ms": None if clock is None else clock.error_ns / NS_PER_MS,
        "verdict": findings.verdicts[machine.name],
        "restarts": _count_or_null(machine, "restarts", machine.epochs.restarts),
        "per_second": round(machine.records / (lasts_ns / S), 3) if lasts_ns else None,
        "longest_silence_ms": machine.longest_silence_ns / NS_PER_MS,
        "drift_ppm": None
        if clock is None or clock.drift_ppm is None
        else round(clock.drift_ppm, 1),
        "jumps": machine.jumps.jumps(findings.counting.last_ns) if clock is None else clock.jumps,
        "late_ms": quantiles_ms(machine.late_ns),
        "set_backs": len(machine.set_back_ns),
        "set_back_ms": quantiles_ms(machine.set_back_ns, ("p99", "max")),
        "rows_dropped": machine.rows_dropped,
        "copies_counted": machine.copies_counted,
        "windows_wrong": len(machine.wrong_windows),
        "several_partitions": machine.several_partitions,
    }


def _describe_windows(findings: Findings) -> dict[str, Any]:
    jobs = findings.jobs
    lateness = {}
    for at, bound_ns in enumerate(jobs.bounds_ns):
        figures = jobs.figures(at)
        lateness[bound_key(bound_ns)] = {
            "wrong": figures.wrong,
            "rows_dropped": figures.rows_dropped,
            "copies_counted": figures.copies_counted,
            "wrong_by_drops": figures.wrong_by_drops,
            "wrong_by_copies": figures.wrong_by_copies,
        }
    return {
        "length_ms": to_ms(jobs.length_ns),
        "all": jobs.windows,
        "wrong_by_clock": len(findings.wrong_by_clock),
        "lateness": lateness,
    }


def _describe_engine(findings: Findings) -> dict[str, Any]:
    engine = findings.engine
    rising = sort_values(engine.waits_ns)
    mean_ns = sum(rising) / len(rising) if rising else 0.0
    return {
        "wait_ms": {
            "mean": round(mean_ns / NS_PER_MS, 6),
            "p99": nearest_rank(rising, 990) / NS_PER_MS,
        },
        "wrong_at_first": len(engine.at_first),
        "wrong_at_last": len(engine.at_last),
        "truth": "mended stamps" if findings.advice.wrong_clocks else "lines",
    }


def to_ms(amount_ns: int) -> int | float:
    return amount_ns // 1_000_000 if amount_ns % 1_000_000 == 0 else amount_ns / NS_PER_MS


def bound_key(bound_ns: int) -> str:
    """Return the key of a bound in the document: its duration in ms."""
    return str(to_ms(bound_ns))
