"""Waiting strategies: how long to wait before an event leaves or a window closes.

| strategy                   | module                  | waits                                   |
|----------------------------|-------------------------|-----------------------------------------|
| `RiskSlack`                | risk, posterior, budget | as the promised share of windows allows |
| `TailSlack`                | tail                    | as the promised share of events allows  |
| `KSlack`, `MPKSlack`       | k_slack                 | a given time, the largest delay seen    |
| `AQKSlack`                 | aq_k_slack, coverage    | a share of it that keeps a coverage     |
| `LDOP`                     | ldop                    | a multiple of the mean delay            |
| `ProbSlack`                | prob_slack, miss        | as Rivetti et al. printed it            |
| `EventDriven`              | baselines               | for certainty                           |
| `Ignore`, `AverageDelay`   | baselines               | not at all, the mean delay              |

The first is the default for windows, the second for a reorder by time (docs/waiting.md). All
keep the contract of `policy`; `window_driver` and `topology.reorder.time_buffer` drive
any of them, `chain` several K-Slacks in one store.
"""

from topology.waiting.budget import Budget, WaitBudget
from topology.waiting.driver import Closing, Missed, WindowDriver
from topology.waiting.policy import SlackPolicy
from topology.waiting.published.aq_k_slack import AQKSlack
from topology.waiting.published.baselines import AverageDelay, EventDriven, Ignore
from topology.waiting.published.chain import KSlackChain
from topology.waiting.published.k_slack import KSlack, MPKSlack
from topology.waiting.published.ldop import LDOP
from topology.waiting.published.prob_slack import ProbSlack
from topology.waiting.risk import RiskSlack
from topology.waiting.tail import TailSlack

__all__ = [
    "LDOP",
    "AQKSlack",
    "AverageDelay",
    "Budget",
    "Closing",
    "EventDriven",
    "Ignore",
    "KSlack",
    "KSlackChain",
    "MPKSlack",
    "Missed",
    "ProbSlack",
    "RiskSlack",
    "SlackPolicy",
    "TailSlack",
    "WaitBudget",
    "WindowDriver",
]
