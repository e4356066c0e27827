"""Pictures of curves, as small PNG files.

matplotlib is a tool of development and not of the application: where it is absent,
`NoPlots` says so and the tables stand alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import floor, log10
from pathlib import Path
from typing import Any

from benchmarks.tables import Page

DPI = 72
SIZE_INCHES = (7.5, 4.2)
ABOVE = 1.6
"""How far a logarithmic axis goes beyond its highest point, so that labels have room."""


class NoPlots(Exception):
    """matplotlib is not installed."""


@dataclass(frozen=True, slots=True)
class Curve:
    """`points` are (x, y, label); `style` is matplotlib's, such as `o-`."""

    name: str
    points: Sequence[tuple[float, float, str]]
    style: str = "o-"


@dataclass(frozen=True, slots=True)
class Axes:
    """What the axes mean. A `linear` stretch at a logarithmic axis holds the 0; `plain` axes
    are linear throughout and show what is below 0 too."""

    title: str
    x: str
    y: str
    x_linear_below: float = 0.01
    y_linear_below: float = 0.001
    plain: bool = False


def decade(values: Iterable[float]) -> float:
    """The power of ten at or below the smallest of them that is above 0: where the linear
    stretch of an axis may end."""
    return float(10 ** floor(log10(min((value for value in values if value > 0), default=1))))


def draw(axes: Axes, curves: Sequence[Curve], path: Path) -> Path:
    """Both axes are logarithmic down to their linear stretch, unless they are plain."""
    plt = pyplot()
    figure, plot = plt.subplots(figsize=SIZE_INCHES, dpi=DPI, layout="constrained")
    for curve in curves:
        if not curve.points:
            continue
        xs, ys = [x for x, _, _ in curve.points], [y for _, y, _ in curve.points]
        plot.plot(xs, ys, curve.style, label=curve.name, markersize=4, linewidth=1)
        for x, y, label in curve.points:
            plot.annotate(label, (x, y), fontsize=6, xytext=(3, 3), textcoords="offset points")
    if not axes.plain:
        plot.set_xscale("symlog", linthresh=axes.x_linear_below)
        plot.set_yscale("symlog", linthresh=axes.y_linear_below)
        highest = max((y for curve in curves for _, y, _ in curve.points), default=1)
        plot.set_ylim(0, ABOVE * highest if highest > 0 else None)
        plot.set_xlim(left=0)
    plot.set_title(axes.title, fontsize=10)
    plot.set_xlabel(axes.x)
    plot.set_ylabel(axes.y)
    plot.grid(visible=True, alpha=0.3)
    plot.legend(fontsize=8)
    figure.savefig(path, metadata={"Software": None}, pil_kwargs={"optimize": True})
    plt.close(figure)
    return path


def pyplot() -> Any:
    """Raises NoPlots."""
    try:
        import matplotlib as mpl
    except ImportError as absent:
        raise NoPlots("matplotlib is not here; `make setup` brings it") from absent
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    return plt


def shown(page: Page, folder: Path, drawn: Callable[[], Path]) -> None:
    """A picture in `folder`, which is made where it is not there; the page has its name, or that
    there are no pictures here."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        page.plotted(drawn())
    except NoPlots as none:
        page.say(str(none))
