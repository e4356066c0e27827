"""What the figures of DETECTOR mean, in the order in which metrics have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from topology.model.operator import Figure

FIGURES: Final[Mapping[str, Figure]] = {
    "held": Figure("Events kept for going back behind them, or not read yet"),
    "keys": Figure("Keys with a state"),
    "emitted": Figure(
        "Results emitted for the first time, or again after a retract", is_total=True
    ),
    "updated": Figure("Results emitted again, changed", is_total=True),
    "retracted": Figure("Results taken back", is_total=True),
    "wait_ns": Figure(
        "How far behind the newest event is read, where that is before the merge; of the query that"
        " waits longest"
    ),
    "alpha_ppm": Figure("Which share of what the merge waits that is; of the query with most"),
    "won_ns": Figure(
        "How much sooner than behind the merge it is read; of the query that wins most"
    ),
    "first": Figure("Events and timers read for the first time", is_total=True),
    "replayed": Figure("Events and timers read again", is_total=True),
    "rollbacks": Figure("Rollbacks of a state to a checkpoint", is_total=True),
    "converged": Figure(
        "Replays that ended early, in a state that was there before", is_total=True
    ),
    "corrected": Figure("Late events taken in by the detector's own `correct`", is_total=True),
    "checkpoints": Figure("States kept for going back", is_total=True),
    "failed": Figure("Items at which a detector raised", is_total=True),
    "untold": Figure("Items at which a detector gave too many results", is_total=True),
    "stopped": Figure("Keys given up, their state or timers without bounds", is_total=True),
    "unlike": Figure("Times a detector did not give the same of the same", is_total=True),
    "expired": Figure("Events that came when their time was final", is_total=True),
    "refused": Figure("Events of one key more than max_keys", is_total=True),
    "given_up": Figure("Times all was made final, max_events being reached", is_total=True),
    "copies": Figure("Events seen before", is_total=True),
    "conflicts": Figure("Events seen before with another content", is_total=True),
    "unkeyed": Figure("Events without a value for the key of a query", is_total=True),
    "unreadable": Figure("Payloads that are no JSON", is_total=True),
    "revised": Figure(
        "Results of other queries that came, changed or went where it had read", is_total=True
    ),
    "forgotten": Figure("Results a detector kept open that were forgotten", is_total=True),
}
