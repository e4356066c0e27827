"""Decides how long to wait before emitting an event or closing a window, by a waiting strategy.

| strategy    | module                  | waits as long as                           |
|-------------|-------------------------|--------------------------------------------|
| `RiskSlack` | risk, posterior, budget | the quality target of windows requires     |
| `OwnTail`   | tail                    | the quality target of events requires      |

`RiskSlack` is the default for windows, `OwnTail` for a reorder by time (docs/concepts/late.md).
All strategies implement the contract of `policy`, so `driver` and
`topology.order.reorder.time_buffer` work with any of them.
"""
