"""Waiting strategies: how long to wait before an event leaves or a window closes.

| strategy                   | module                  | waits                                   |
|----------------------------|-------------------------|-----------------------------------------|
| `RiskSlack`                | risk, posterior, budget | as the promised share of windows allows |
| `TailSlack`                | tail                    | as the promised share of events allows  |
| `OwnTail`                  | own_tail                | the same for one source by itself       |
| in `published/`            |                         |                                         |
| `KSlack`, `MPKSlack`       | k_slack                 | a given time, the largest delay seen    |
| `AQKSlack`                 | aq_k_slack              | a share of it that keeps a coverage     |
| `LDOP`                     | ldop                    | a multiple of the mean delay            |
| `ProbSlack`                | prob_slack, miss        | as Rivetti et al. printed it            |
| `EventDriven`              | event_driven            | for certainty                           |
| `AverageDelay`             | mean_delay              | the mean delay                          |

The first is the default for windows, the third for a reorder by time (docs/waiting.md). The others
are chosen by name (`topology.query.quality`, `topology.waiting.strategy`). All keep the contract of
`policy`; `driver` and `topology.reorder.time_buffer` drive any of them.
"""

from topology.waiting.budget import AccuracyBudget
from topology.waiting.driver import Closing, Missed, WindowDriver
from topology.waiting.policy import SlackPolicy
from topology.waiting.published.aq_k_slack import AQKSlack
from topology.waiting.published.event_driven import EventDriven
from topology.waiting.published.k_slack import KSlack, MPKSlack
from topology.waiting.published.ldop import LDOP
from topology.waiting.published.mean_delay import AverageDelay
from topology.waiting.published.prob_slack import ProbSlack
from topology.waiting.risk import RiskSlack
from topology.waiting.tail import TailSlack

__all__ = [
    "LDOP",
    "AQKSlack",
    "AccuracyBudget",
    "AverageDelay",
    "Closing",
    "EventDriven",
    "KSlack",
    "MPKSlack",
    "Missed",
    "ProbSlack",
    "RiskSlack",
    "SlackPolicy",
    "TailSlack",
    "WindowDriver",
]
