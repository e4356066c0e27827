"""Waiting strategies: they decide how long to wait before emitting an event or closing a window.

| strategy    | module                  | waits                                      |
|-------------|-------------------------|--------------------------------------------|
| `RiskSlack` | risk, posterior, budget | as the quality target of windows allows    |
| `OwnTail`   | tail                    | as the quality target of events allows     |

The first is the default for windows, the second for a reorder by time (docs/concepts/late.md).
Methods of papers are in `topology.published`. All strategies keep the contract of `policy`;
`driver` and `topology.reorder.time_buffer` drive any of them.
"""
