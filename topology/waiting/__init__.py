"""Waiting strategies: how long to wait before an event leaves or a window closes.

| strategy    | module                  | waits                                   |
|-------------|-------------------------|-----------------------------------------|
| `RiskSlack` | risk, posterior, budget | as the promised share of windows allows |
| `TailSlack` | tail                    | as the promised share of events allows  |
| `OwnTail`   | own_tail                | the same for one source by itself       |
| `KSlack`    | fixed                   | a given time                            |

The first is the default for windows, the third for a reorder by time (docs/waiting.md). The methods
of papers are in `topology.published`. All keep the contract of `policy`; `driver` and
`topology.reorder.time_buffer` drive any of them.
"""
