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

from topology.slack.aq_k_slack import AQKSlack
from topology.slack.baselines import AverageDelay, EventDriven, Ignore
from topology.slack.budget import Budget, WaitBudget
from topology.slack.chain import KSlackChain
from topology.slack.k_slack import KSlack, MPKSlack
from topology.slack.ldop import LDOP
from topology.slack.policy import SlackPolicy
from topology.slack.prob_slack import ProbSlack
from topology.slack.risk import RiskSlack
from topology.slack.tail import TailSlack
from topology.slack.window_driver import Closing, Missed, WindowDriver

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
