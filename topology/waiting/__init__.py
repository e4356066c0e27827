"""Waiting strategies: how long to wait before an event leaves or a window closes.

| strategy    | module                  | waits                                   |
|-------------|-------------------------|-----------------------------------------|
| `RiskSlack` | risk, posterior, budget | as the promised share of windows allows |
| `OwnTail`   | tail                    | as the promised share of events allows  |

The first is the default for windows, the second for a reorder by time (docs/concepts/late.md).
Methods of papers are in `topology.published`. All keep the contract of `policy`; `driver` and
`topology.reorder.time_buffer` drive any of them.
"""
