"""Four detectors, as a user writes them (docs/guides/detectors.md)."""

from typing import NamedTuple

from inorder.engine import Detector, Found

SECOND = 1_000_000_000


# -- a stop: a machine that has not moved for three seconds; reported then, and when it moves again


class Stop(NamedTuple):
    still_since: int | None = None
    reported: bool = False


def stop_step(state, event):
    if event.payload["speed"] < 0.1:
        return (state if state.still_since else Stop(event.time_ns)), None
    if state.reported:
        lasted = (event.time_ns - state.still_since) / SECOND
        return Stop(), Found({"stopped_s": lasted}, id=state.still_since, last=True)
    return Stop(), None


def stop_due(state):
    return None if state.reported or not state.still_since else state.still_since + 3 * SECOND


def stop_tick(state, _):
    found = Found({"stopped_s": None}, id=state.still_since, start_ns=state.still_since)
    return state._replace(reported=True), found


# -- a Kalman filter: position and speed of a track; reports a measurement that does not fit


class Track(NamedTuple):
    time_ns: int = 0
    x: float = 0.0
    v: float = 0.0
    p: tuple = (1e3, 0.0, 1e3)  # variance of x, covariance, variance of v


def kalman(state, event, noise=0.25, wander=4.0):
    z = event.payload["x"]
    if not state.time_ns:
        return Track(event.time_ns, z), None
    dt = (event.time_ns - state.time_ns) / SECOND
    a, b, c = state.p
    a, b, c = (
        a + dt * (2 * b + dt * c) + wander * dt**3 / 3,
        b + dt * c + wander * dt**2 / 2,
        c + wander * dt,
    )
    off, x = z - (state.x + dt * state.v), state.x + dt * state.v
    s = a + noise
    if off * off > 25 * s:  # five deviations off: another track
        return Track(event.time_ns, x, state.v, (a, b, c)), {"x": z, "expected": round(x, 3)}
    k, h = a / s, b / s
    p = ((1 - k) * a, (1 - k) * b, c - h * b)
    return Track(event.time_ns, x + k * off, state.v + h * off, p), None


# -- a top three: the names with the most points; reported each time they change


class TopThree:
    def __init__(self):
        self.points = {}
        self.top = []

    def on_event(self, event):
        name = event.payload["name"]
        self.points[name] = self.points.get(name, 0) + event.payload["points"]
        top = sorted(self.points, key=lambda each: (-self.points[each], each))[:3]
        if top != self.top:
            self.top = top
            yield {"top": [[each, self.points[each]] for each in top]}


# -- the machines of a line that have stopped: it reads the results of `stop`


def stopped(state, event):
    machine, stops = event.payload["key"], event.payload["stopped_s"] is None
    state = state | {machine} if stops else state - {machine}
    return state, {"stopped": sorted(state)}


detectors = {
    "stop": Detector(stop_step, Stop(), deadline=stop_due, tick=stop_tick),
    "stopped": Detector(stopped, frozenset()),
    "stray": Detector(kalman, Track()),
    "top_three": TopThree,
}
