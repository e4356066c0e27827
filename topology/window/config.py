"""What a window query asks for: `topology.config` reads and checks it.

All bounds are per query and partition:

* `max_windows`: windows (of sliding ones: slices) that are open or kept for corrections, over
  all keys; of a count window: keys. At the bound what is kept for corrections is given up
  first, oldest first; if all are open, what would open one more is left out. Both are counted.
* `max_edge_events`: events of one window that may or may not belong to it. Beyond it the
  window is emitted by reference time alone and without bounds.
* `max_recount`: events per key that a count window keeps for corrections.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from topology.answer.quality import Answering
from topology.model.one_clock import Play

WindowType = Literal["tumbling", "sliding", "session", "count"]

USUAL_PLAY: Final = Play(100)

PLAIN: Final = "plain"
IGNORE: Final = "ignore"
THESIS3: Final = "thesis3"
EXPECTED: Final = "expected"
BOUNDS: Final = "bounds"

TUMBLING: Final = "tumbling"
SLIDING: Final = "sliding"
SESSION: Final = "session"
COUNT: Final = "count"


class Window(NamedTuple):
    """`size_ns` is the gap of a session; `events` that of a count window."""

    kind: WindowType
    size_ns: int = 0
    every_ns: int = 0
    events: int = 0


class Aggregate(NamedTuple):
    """`path` leads to the value, like `("payload", "force")`; it is empty for `count` alone.
    `quantile_ppm` is of `quantile` alone, 990_000 for 0.99."""

    function: str
    path: tuple[str, ...] = ()
    quantile_ppm: int = 0


@dataclass(frozen=True, slots=True)
class Output:
    """One named aggregate: `path` leads to its value in the payload, empty for `count`."""

    name: str
    function: str
    path: tuple[str, ...] = ()
    quantile_ppm: int = 0


@dataclass(frozen=True, slots=True)
class WindowConfig(Answering):
    """`size_ns` is the gap of a session, `events` the size of a count window. `every_ns` of a
    tumbling window is its size. `early_ns`: 0 for no early results. `max_error_ns` is the
    largest clock error that `thesis3` reckons with; `play` is how far
    the error of one source is not the same for all its events (`shifts`). `functions_digest`: of
    the texts of the user's aggregates, empty where they have none."""

    query: str
    kind: str
    outputs: tuple[Output, ...]
    size_ns: int = 0
    every_ns: int = 0
    events: int = 0
    key: tuple[str, ...] | None = None
    uncertainty: str = PLAIN
    early_ns: int = 0
    max_error_ns: int = 20 * 10**6
    play: Play = USUAL_PLAY
    max_windows: int = 1_000_000
    max_edge_events: int = 1_000
    max_recount: int = 10_000
    functions_digest: str = ""

    @property
    def heeds_errors(self) -> bool:
        return self.uncertainty != IGNORE

    @property
    def fingerprint(self) -> bytes:
        """Equal for queries whose windows are the same."""
        what = (self.kind, self.size_ns, self.every_ns, self.events, self.key)
        outputs = [(o.name, o.function, o.path, o.quantile_ppm) for o in self.outputs]
        return repr((self.query, what, outputs, self.uncertainty)).encode()

    @property
    def known_by(self) -> bytes:
        """Return what the state is known by: the fingerprint, and the texts of the functions."""
        return self.fingerprint + self.functions_digest.encode()
