"""Examples: LimeCEP's score of late events, and its recall on LimeCEP's own small stream.

The paper (figure 8, 70 % disorder) prints a recall of 0 for a factor of 0.5, whatever the weights.
For 1.0 it prints 83.3 % of a+b+c and 14 of 15 of abc, and from 1.5 on 100 %.
"""

from __future__ import annotations

import pytest

from tests.benchmarks.published.lateness_score import LatenessScore
from tests.topology.queries.pattern.following import compiled, current
from tests.topology.queries.pattern.generate import of_text

ARRIVED = "b1 b2 b11 a3 c10 a4 a6 c20 a5 a18 a7 b8 a17 a9 b12 a13 b14 b16 a15 c19 a21"
"""mini_full of LimeCEP (github.com/KyraStyl/LimeCEP, full-ooo), as it arrives."""

SPREAD = (0.0, 0.5, 0.5)


@pytest.mark.parametrize(
    ("weights", "factor", "found"),
    [
        (SPREAD, 0.5, (0, 0, 0)),
        (SPREAD, 1.0, (14, 9, 5)),
        (SPREAD, 1.5, (15, 10, 6)),
        ((0.6, 0.2, 0.2), 1.0, (6, 6, 0)),
        ((0.6, 0.2, 0.2), 1.5, (11, 9, 3)),
        ((0.6, 0.2, 0.2), 2.5, (15, 10, 6)),
    ],
)
def test_recall_on_the_mini_stream(
    weights: tuple[float, float, float], factor: float, found: tuple[int, ...]
) -> None:
    """Counts are matches of abc, ab+c and a+b+c, where 15, 10 and 6 are true."""
    arrived, counts = of_text(ARRIVED), []
    for pattern in ("SEQ(A a, B b, C c)", "SEQ(A a, B+ b[], C c)", "SEQ(A+ a[], B+ b[], C c)"):
        query = compiled(pattern, "USING skip_till_any MATCHES MAXIMAL")
        true = current(query, arrived).contents()
        score = LatenessScore(10, factor, weights)
        taken = [one for one in arrived if score.admits(one.type, one.time_ns)]
        counts.append(sum(each in true for each in current(query, taken).contents()))
    assert tuple(counts) == found
