"""Provide two simple engines as baselines for pattern queries.

| engine         | out of order                         | partial matches                       |
|----------------|--------------------------------------|---------------------------------------|
| `buffered_nfa` | buffers every event for K, then in   | one run for each, examined with each  |
|                | order                                | event it waits for                    |
| `eager`        | takes events as they come; a late    | all that exist, made at once          |
|                | one repairs what it changes          |                                       |

Both are correct for a restricted class only. The pattern is a sequence of components of different
types, without conditions. Each component takes one event, or one or more; the last takes one. All
event times differ, and disorder is within K. They support MATCHES ONE under skip-till-next, and
MAXIMAL under skip-till-any.
"""
