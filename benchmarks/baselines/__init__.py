"""Two engines of the plain kind that pattern queries are measured against.

| engine         | out of order                         | partial matches                       |
|----------------|--------------------------------------|---------------------------------------|
| `buffered_nfa` | holds every event for K, then in     | one run for each, looked at with each |
|                | order                                | event it waits for                    |
| `eager`        | takes events as they come; a late    | all that there are, made at once      |
|                | one repairs what it changes          |                                       |

Both are right for what they claim, and for no more: a sequence of components of different
types, each one event or one or more, the last one event; no conditions; no two events of one
time; disorder within K. MATCHES ONE under skip-till-next, and MAXIMAL under skip-till-any.
"""
