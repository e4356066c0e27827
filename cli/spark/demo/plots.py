"""Three pictures of the demo, as PNG files: disorder, clocks, latency.

matplotlib comes with the `spark` extra. The functions take what `analysis` found and know
nothing of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from cli.demo.clocks import WrongClock
from cli.spark.demo.analysis import Found, Passage, Round

DPI: Final = 110
COLOURS: Final = ("tab:blue", "tab:orange", "tab:green", "tab:red", "tab:purple", "tab:brown")
NS_PER_MS: Final = 1e6
NS_PER_S: Final = 1e9
STEPS: Final = 200
TICKS: Final = {
    0: "0",
    1: "1 ms",
    10: "10 ms",
    100: "100 ms",
    1_000: "1 s",
    10_000: "10 s",
    60_000: "1 min",
    3_600_000: "1 h",
}
LEAST_RANGE_MS: Final = 0.5
LEAST_ERROR_MS: Final = 1e-4


def draw(found: Found, clocks: Mapping[str, WrongClock], folder: Path) -> list[Path]:
    """Write all of them into `folder`, which is made if need be."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, picture in (("disorder", disorder), ("clocks", clock_errors), ("latency", latency)):
        figure = picture(plt, found, clocks)
        path = folder / f"{name}.png"
        figure.savefig(path, dpi=DPI, metadata={"Software": None})
        plt.close(figure)
        written.append(path)
    return written


# -- disorder --------------------------------------------------------------------------------------


def disorder(plt: Any, found: Found, _: Mapping[str, WrongClock]) -> Any:
    """How far each event lies behind the newest before it: in the raw topic by the sources'
    stamps, there with the clocks set right, and in the ordered topic."""
    as_arrived = sorted(found.passages, key=lambda passage: passage.was)
    as_left = sorted(found.passages, key=lambda passage: passage.stands)
    begin_ns = as_arrived[0].appended_ns
    panels = [
        ("events.raw, by the stamps of the sources", _stamped(as_arrived)),
        ("events.raw, clocks set right: what the network has done", _set_right(as_arrived)),
        ("events.ordered", _ordered(as_left)),
    ]
    figure, axes = plt.subplots(
        3, 1, figsize=(9, 9), sharex=True, sharey=True, layout="constrained"
    )
    for plot, (title, seen) in zip(axes, panels, strict=True):
        behind = [one for one in seen if one.behind_ns > 0]
        marked = sum(one.late for one in behind)
        told = f", {marked:,} of these marked late" if marked else ""
        plot.set_title(
            f"{title}: {len(behind):,} of {len(seen):,} behind a younger one{told}", fontsize=10
        )
        for colour, source in zip(COLOURS, _sources(found), strict=False):
            own = [one for one in seen if one.source == source]
            _dots(plot, [one for one in own if not one.late], begin_ns, ".", colour, source)
            _dots(plot, [one for one in own if one.late], begin_ns, "x", colour, f"{source}, late")
        plot.set_yscale("symlog", linthresh=1)
        plot.set_yticks(list(TICKS), list(TICKS.values()))
        plot.minorticks_off()
        plot.set_ylim(-0.4, 2e7)
        plot.set_ylabel("behind by")
        plot.grid(visible=True, alpha=0.3)
    axes[-1].legend(loc="upper right", ncols=3, fontsize=8, markerscale=2)
    axes[-1].set_xlabel("arrival clock since the first event, s")
    figure.suptitle("Disorder before and after: how far events lie behind the newest before them")
    return figure


class _Seen(NamedTuple):
    source: str
    clock_ns: int
    behind_ns: int
    late: bool


def _stamped(passages: Sequence[Passage]) -> list[_Seen]:
    behind_ns = _behind([(p.ts_ns, True) for p in passages])
    return [
        _Seen(p.source, p.appended_ns, lag_ns, late=False)
        for p, lag_ns in zip(passages, behind_ns, strict=True)
    ]


def _set_right(passages: Sequence[Passage]) -> list[_Seen]:
    behind_ns = _behind([(p.ref_ns, True) for p in passages])
    return [
        _Seen(p.source, p.appended_ns, lag_ns, late=False)
        for p, lag_ns in zip(passages, behind_ns, strict=True)
    ]


def _ordered(passages: Sequence[Passage]) -> list[_Seen]:
    """Marked events stand outside of the order: nothing is behind one of them."""
    behind_ns = _behind([(p.ref_ns, p.late == "") for p in passages])
    return [
        _Seen(p.source, p.at_ns, lag_ns, p.late != "")
        for p, lag_ns in zip(passages, behind_ns, strict=True)
    ]


def _behind(times: Sequence[tuple[int, bool]]) -> list[int]:
    """For each (time, does it count) how far it lies below the newest that counts so far."""
    newest_ns = times[0][0]
    found = []
    for time_ns, counts in times:
        if counts:
            newest_ns = max(newest_ns, time_ns)
        found.append(max(0, newest_ns - time_ns))
    return found


def _dots(
    plot: Any, seen: Sequence[_Seen], begin_ns: int, marker: str, colour: str, label: str
) -> None:
    if not seen:
        return
    xs = [(one.clock_ns - begin_ns) / NS_PER_S for one in seen]
    ys = [one.behind_ns / NS_PER_MS for one in seen]
    size = 3 if marker == "." else 6
    plot.plot(xs, ys, marker, color=colour, markersize=size, alpha=0.6, label=label)


# -- clocks ----------------------------------------------------------------------------------------


def clock_errors(plt: Any, found: Found, clocks: Mapping[str, WrongClock]) -> Any:
    """Per source, above: rounds of time sync, the correction and the truth, around the first
    truth. Below: the bound that events bear, and how far they really are off."""
    sources = _sources(found)
    figure, axes = plt.subplots(
        *(2, len(sources)),
        figsize=(4.2 * len(sources), 7),
        sharex=True,
        sharey="row",
        layout="constrained",
    )
    begin_ns = min(passage.ref_ns for passage in found.passages)
    reaches_ms = []
    for column, source in enumerate(sources):
        clock = clocks[source]
        passages = sorted(
            (p for p in found.passages if p.source == source), key=lambda passage: passage.ref_ns
        )
        seconds = [(p.ref_ns - begin_ns) / NS_PER_S for p in passages]
        zero_ns = _true_offset_ns(clock, passages[0].ts_ns)
        rounds = [r for r in found.rounds if r.source == source]
        reaches_ms.append(_corrections(axes[0][column], rounds, clock, passages, begin_ns, zero_ns))
        _bounds(axes[1][column], clock, passages, seconds)
        axes[0][column].set_title(
            f"{source}: {_spelled(clock)}\n0 is a correction by {zero_ns / NS_PER_S:+,.4f} s",
            fontsize=9,
        )
        axes[1][column].set_xlabel("time since the first event, s")
    axes[0][0].set_ylabel("correction since the first event, ms")
    # The first round is wide, since nobody had spoken yet: its ends lie outside.
    reach_ms = 1.3 * max(LEAST_RANGE_MS, *reaches_ms)
    axes[0][0].set_ylim(-reach_ms, reach_ms)
    axes[1][0].set_ylabel("error of the corrected time, ms")
    axes[0][0].legend(fontsize=8, loc="lower left")
    axes[1][0].legend(fontsize=8, loc="upper right")
    axes[1][0].set_ylim(bottom=LEAST_ERROR_MS)
    figure.suptitle("Clocks: what time sync measured, what events are corrected by, the truth")
    return figure


def _corrections(
    plot: Any,
    rounds: Sequence[Round],
    clock: WrongClock,
    passages: Sequence[Passage],
    begin_ns: int,
    zero_ns: int,
) -> float:
    """The largest correction since the first event, in ms."""
    at = [(r.at_ns - begin_ns) / NS_PER_S for r in rounds]
    middle = [((r.low_ns + r.high_ns) / 2 - zero_ns) / NS_PER_MS for r in rounds]
    half = [(r.high_ns - r.low_ns) / 2 / NS_PER_MS for r in rounds]
    plot.errorbar(
        at,
        middle,
        half,
        fmt=".",
        color="tab:blue",
        elinewidth=1,
        markersize=3,
        label="rounds of sync",
    )
    seconds = [(p.ref_ns - begin_ns) / NS_PER_S for p in passages]
    applied = [(p.ref_ns - p.ts_ns - zero_ns) / NS_PER_MS for p in passages]
    plot.plot(seconds, applied, color="tab:orange", linewidth=2, label="applied to events")
    low_s, high_s = min([*at, seconds[0]]), max([*at, seconds[-1]])
    line = [low_s + (high_s - low_s) * step / STEPS for step in range(STEPS + 1)]
    truth = [
        (_true_offset_ns(clock, clock.reads(begin_ns + int(s * NS_PER_S))) - zero_ns) / NS_PER_MS
        for s in line
    ]
    plot.plot(line, truth, "k--", linewidth=1, label="truth")
    plot.grid(visible=True, alpha=0.3)
    return max(map(abs, applied))


def _bounds(
    plot: Any, clock: WrongClock, passages: Sequence[Passage], seconds: Sequence[float]
) -> None:
    bound = [p.error_ns / NS_PER_MS for p in passages]
    real = [abs(p.ref_ns - clock.true(p.ts_ns)) / NS_PER_MS for p in passages]
    plot.plot(seconds, bound, color="tab:red", linewidth=1.5, label="stated bound")
    plot.plot(seconds, real, ".", color="tab:green", markersize=3, label="real error")
    plot.set_yscale("log")
    plot.grid(visible=True, alpha=0.3)


def _true_offset_ns(clock: WrongClock, reading_ns: int) -> int:
    return clock.true(reading_ns) - reading_ns


def _spelled(clock: WrongClock) -> str:
    if not clock.ahead_ns:
        return "a right clock"
    where = "ahead" if clock.ahead_ns > 0 else "behind"
    return f"{abs(clock.ahead_ns) / NS_PER_S:,.0f} s {where}, runs {clock.rate_ppm:+} ppm"


# -- latency ---------------------------------------------------------------------------------------


def latency(plt: Any, found: Found, _: Mapping[str, WrongClock]) -> Any:
    """Shares of events below a time, on their way to the topic, waiting, and in all."""
    parts: dict[str, Callable[[Passage], int]] = {
        "on the way: append − event time": lambda p: p.appended_ns - p.ref_ns,
        "waiting: decision − append": lambda p: p.at_ns - p.appended_ns,
        "in all: decision − event time": lambda p: p.at_ns - p.ref_ns,
    }
    figure, axes = plt.subplots(
        1, 3, figsize=(13, 5), sharex=True, sharey=True, layout="constrained"
    )
    for plot, (title, length_ns) in zip(axes, parts.items(), strict=True):
        for colour, source in zip(COLOURS, _sources(found), strict=False):
            times = sorted(
                length_ns(p) / NS_PER_MS
                for p in found.passages
                if p.source == source and p.late == ""
            )
            shares = [100 * (place + 1) / len(times) for place in range(len(times))]
            named = f"{source}: median {_at(times, 0.5)}, p99 {_at(times, 0.99)} ms"
            plot.plot(times, shares, color=colour, linewidth=1.5, label=named)
        plot.set_xscale("symlog", linthresh=1)
        plot.set_xticks(list(TICKS)[:6], list(TICKS.values())[:6])
        plot.minorticks_off()
        plot.set_title(title, fontsize=10)
        plot.set_xlabel("time")
        plot.grid(visible=True, alpha=0.3)
        plot.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    axes[0].set_ylabel("share of events that took at most so long, %")
    figure.suptitle("Latency of events in order (arrival clock; append times are in whole ms)")
    return figure


def _at(times: Sequence[float], rank: float) -> str:
    return f"{times[int(rank * (len(times) - 1))]:.1f}"


# -- shared ----------------------------------------------------------------------------------------


def _sources(found: Found) -> list[str]:
    return sorted({passage.source for passage in found.passages})
