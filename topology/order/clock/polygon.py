"""Computes all lines (offset, rate) of a clock that are consistent with its rounds of time sync.

The offset is D(t), with t on the source's clock. Its rate is within +-`skew` and changes no faster
than `wander`. With theta and rho as its value and rate at t0, D(t) is within 1/2 wander (t - t0)^2
of theta + rho (t - t0). So a bound D(t_i) <= u_i, relaxed by that much, is a half plane in (theta,
rho). The lines that satisfy all bounds are a convex polygon, and the true line is in it. So the
true offset at any t is within the polygon's range at t, widened by the same term. The upper end of
that range is convex over t, and the lower end is concave.

* `Bounds` keeps the upper bounds that can matter. Lower bounds are upper bounds of -D. A bound is
  dropped when a later one implies it at every rate the clock may have, as in a sliding-window
  minimum. That loses nothing, and the remaining bounds do not depend on order or repeats.
* At most `MAX_BOUNDS` are kept. Beyond that, the looser of the two nearest in time is dropped. They
  are compared as if the offset changed at `rate`. The range then gets wider, but stays valid.
* t0 is the time of the newest bound. Floats are relative to t0 and to the newest upper bound, so
  a large offset or a distant date costs no precision. Against rounding errors, every bound is
  relaxed by `ROUNDING_NS`, and every result is rounded outward.

The polygon always contains the true line, while the *guess* is the most likely line. Bounds older
than the window are not used for the polygon, because a clock might wander more than it should. But
most clocks wander far less. So the guess also uses older bounds, all relaxed for a clock
`GUESS_STEADINESS` times as steady. They are applied from the newest back to the first that would
leave no line. The guess is the centroid of the lines that are left. This is the mean of the
posterior if the delays in both directions are exponential. The guess changes the offset within the
range, but not the ends of the range.

Cost: O(bounds) to add a bound; O(bounds x corners) to build the polygon, which has few corners.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import ceil, floor
from typing import Final

from topology.state.saved import INT, Saved, Shape, list_of

MAX_BOUNDS: Final = 32
"""The maximum number of bounds of each kind.

Ten initial rounds and four per minute make 30 bounds in five minutes.
"""
GUESS_STEADINESS: Final = 2
"""The factor by which the guess assumes a clock to be steadier than `wander` allows.

This is near the best factor from 1 to 10, for steady clocks and for those at the limit.
"""
ROUNDING_NS: Final = 1.0
PPB: Final = 1_000_000_000
NO_AREA: Final = 1e-15
"""The doubled area (ns times rate) below which a polygon's corners differ only by rounding."""


BOUNDS: Final = Shape("clock.bounds", 1, times_ns=list_of(INT), values_ns=list_of(INT))


class Bounds(Saved):
    """The upper bounds of an offset: D <= `values_ns[i]` at `times_ns[i]`, in order of time.

    The times are on the source's clock.
    """

    SHAPE = BOUNDS
    __slots__ = (*BOUNDS.fields, "_skew_ppb")

    def __init__(self, skew_ppb: int) -> None:
        self._skew_ppb = skew_ppb
        self.times_ns: list[int] = []
        self.values_ns: list[int] = []

    def copy(self) -> Bounds:
        twin = Bounds(self._skew_ppb)
        twin.times_ns = self.times_ns.copy()
        twin.values_ns = self.values_ns.copy()
        return twin

    def add(self, time_ns: int, value_ns: int) -> bool:
        """Add a bound, and return whether it was kept."""
        times, values = self.times_ns, self.values_ns
        at = bisect_left(times, time_ns)
        if at < len(times) and self._implies(times[at], values[at], time_ns, value_ns):
            return False
        if at < len(times) and times[at] == time_ns:
            del times[at], values[at]
        first = at
        while first and self._implies(time_ns, value_ns, times[first - 1], values[first - 1]):
            first -= 1
        times[first:at] = [time_ns]
        values[first:at] = [value_ns]
        return True

    def _implies(self, later_ns: int, tight_ns: int, earlier_ns: int, loose_ns: int) -> bool:
        return (loose_ns - tight_ns) * PPB >= self._skew_ppb * (later_ns - earlier_ns)

    def expire(self, before_ns: int) -> None:
        """Drop the bounds before `before_ns`, but keep the newest bound at any age."""
        expired = min(bisect_left(self.times_ns, before_ns), len(self.times_ns) - 1)
        if expired > 0:
            del self.times_ns[:expired]
            del self.values_ns[:expired]

    def thin(self, rate: float) -> None:
        """Reduce the bounds to `MAX_BOUNDS`.

        `rate` is the estimated rate of D, or of -D for lower bounds.
        """
        times, values = self.times_ns, self.values_ns
        while len(times) > MAX_BOUNDS:
            at = min(range(1, len(times)), key=lambda at: times[at] - times[at - 1])
            expected = values[at - 1] + rate * (times[at] - times[at - 1])
            looser = at if values[at] > expected else at - 1
            del times[looser], values[looser]


Line = tuple[float, float]
"""A line (theta, rho)."""
Plane = tuple[float, float, float]
"""A half plane (x, sign, most): all lines with sign (theta + rho x) <= most."""


class Polygon:
    """A set of possible lines, given by its corners (theta, rho).

    theta is relative to `base_ns`, and rho is in ns per ns.
    """

    __slots__ = ("base_ns", "corners", "half_wander", "t0_ns")

    def __init__(self, t0_ns: int, base_ns: int, half_wander: float) -> None:
        self.t0_ns = t0_ns
        self.base_ns = base_ns
        self.half_wander = half_wander
        self.corners: list[Line] = []

    def offsets_at(self, ts_ns: int) -> tuple[int, int]:
        """Return the smallest and the largest offset possible at `ts_ns`, rounded outward."""
        x = float(ts_ns - self.t0_ns)
        values = [theta + rho * x for theta, rho in self.corners]
        grown = self.half_wander * x * x
        low_ns, high_ns = floor(min(values) - grown) - 1, ceil(max(values) + grown) + 1
        return self.base_ns + low_ns, self.base_ns + high_ns

    def rate(self) -> float:
        """Return the midpoint of the rates that are possible at t0."""
        rhos = [rho for _, rho in self.corners]
        return (min(rhos) + max(rhos)) / 2

    def centroid(self) -> Line:
        """Return the centroid (theta, rho), with theta relative to `base_ns`."""
        n = len(self.corners)
        theta = sum([theta for theta, _ in self.corners]) / n
        rho = sum([rho for _, rho in self.corners]) / n
        around = [(one - theta, other - rho) for one, other in self.corners]
        area = across = along = 0.0
        for at, (two_x, two_y) in enumerate(around):
            one_x, one_y = around[at - 1]
            part = one_x * two_y - two_x * one_y
            area += part
            across += part * (one_x + two_x)
            along += part * (one_y + two_y)
        if abs(area) < NO_AREA:
            return theta, rho
        return theta + across / area / 3, rho + along / area / 3

    def cut(self, sign: float, x: float, most: float) -> bool:
        """Keep the part with sign (theta + rho x) <= most, and return whether it is not empty.

        If it is empty, the polygon does not change.
        """
        x *= sign
        overs = [sign * theta + rho * x - most for theta, rho in self.corners]
        if max(overs) <= 0:
            return True
        left: list[Line] = []
        for at, (theta, rho) in enumerate(self.corners):
            before, over = overs[at - 1], overs[at]
            if (before > 0) != (over > 0):
                share = before / (before - over)
                last_theta, last_rho = self.corners[at - 1]
                left.append(
                    (last_theta + share * (theta - last_theta), last_rho + share * (rho - last_rho))
                )
            if over <= 0:
                left.append((theta, rho))
        self.corners = left or self.corners
        return bool(left)

    def cut_with(self, planes: Sequence[Plane]) -> bool:
        """Cut with each plane in turn; stop and return False at one that would leave nothing."""
        return all(self.cut(sign, x, most) for x, sign, most in planes)


def planes_of(
    uppers: Bounds,
    lowers: Bounds,
    since_ns: int,
    polygon: Polygon,
    skew: float,
    half_wander: float,
) -> list[Plane]:
    """Return the bounds since `since_ns` as relaxed planes, relative to t0 and base, newest first.

    The newest bound of each kind is always included, even if it is older.
    """
    planes: list[Plane] = []
    for bounds, sign in ((uppers, 1), (lowers, -1)):
        times, values, shift_ns = bounds.times_ns, bounds.values_ns, sign * polygon.base_ns
        for at in range(min(bisect_left(times, since_ns), len(times) - 1), len(times)):
            x, most = float(times[at] - polygon.t0_ns), float(values[at] - shift_ns)
            # A rate within +-skew limits the deviation, however fast the rate changes.
            strays = min(half_wander * x * x, 2 * skew * abs(x))
            planes.append((x, float(sign), most + strays + ROUNDING_NS))
    planes.sort(reverse=True)
    return planes


def polygon_of(
    uppers: Bounds, lowers: Bounds, window_ns: int, skew: float, half_wander: float
) -> Polygon | None:
    """Return the polygon of the lines that the bounds of the last `window_ns` allow, or None.

    There must be at least one bound of each kind. `lowers` contains upper bounds of -D. None means
    that no line satisfies all bounds.
    """
    t0_ns = max(uppers.times_ns[-1], lowers.times_ns[-1])
    polygon = Polygon(t0_ns, uppers.values_ns[-1], half_wander)
    planes = planes_of(uppers, lowers, t0_ns - window_ns, polygon, skew, half_wander)
    high = min([most - skew * x for x, sign, most in planes if sign > 0])
    low = max([skew * x - most for x, sign, most in planes if sign < 0])
    if low > high:
        return None
    polygon.corners = [(low, -skew), (high, -skew), (high, skew), (low, skew)]
    return polygon if polygon.cut_with(planes) else None


def guess_of(polygon: Polygon, uppers: Bounds, lowers: Bounds, skew: float) -> Line:
    """Return the likeliest line (theta, rho), relative to the polygon's t0 and base."""
    likely = Polygon(polygon.t0_ns, polygon.base_ns, polygon.half_wander)
    likely.corners = polygon.corners
    since_ns = min(uppers.times_ns[0], lowers.times_ns[0])
    steadier = polygon.half_wander / GUESS_STEADINESS
    likely.cut_with(planes_of(uppers, lowers, since_ns, polygon, skew, steadier))
    return likely.centroid()
