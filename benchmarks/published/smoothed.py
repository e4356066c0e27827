"""Computes a smoothed average and deviation by equations (3.2)-(3.5) of S. Rajendran's thesis.

Optionally the deviation is taken from the old average, as in RFC 6298.
"""

from __future__ import annotations

from typing import Final

from topology.state.histogram import PPM
from topology.state.saved import INT, Saved, Shape

OLD_WEIGHT_PPM: Final = 600_000
"""The weight of the previous average and deviation, as printed in the thesis."""

SMOOTHED: Final = Shape("published.smoothed", 1, samples=INT, average_ns=INT, deviation_ns=INT)


class Smoothed(Saved):
    """The smoothed average and deviation of a time.

    The first sample is the first average, and the second sample gives the first deviation
    (3.2)-(3.5). With `against_new` the deviation is from the average that already contains the
    sample, as in the thesis. RFC 6298 uses the average without the sample. Both use the weights of
    the thesis.
    """

    SHAPE = SMOOTHED
    __slots__ = (*SMOOTHED.fields, "_against_new")

    def __init__(self, against_new: bool) -> None:
        self._against_new = against_new
        self.average_ns = 0
        self.deviation_ns = 0
        self.samples = 0

    def add(self, value_ns: int) -> None:
        self.samples += 1
        if self.samples == 1:
            self.average_ns = value_ns
            return
        old = OLD_WEIGHT_PPM
        before = self.average_ns
        self.average_ns = (old * before + (PPM - old) * value_ns) // PPM
        distance = abs(value_ns - (self.average_ns if self._against_new else before))
        if self.samples == 2:
            self.deviation_ns = distance
        else:
            self.deviation_ns = (old * self.deviation_ns + (PPM - old) * distance) // PPM
