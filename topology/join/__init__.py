"""JOIN: events of two or more streams that belong together, by window or by distance in time.

An event on its way: `reading` makes it an `entry` of each side it is on; `index` holds entries by
side and key; `relation` knows which belong together, surely or possibly; `rows` makes rows of them.
Full rows are emitted at once (`results`).

What an entry is kept for has three owners. `retention` decides how long it stays in the index, and
which goes first at the bound (`until_ns`, `is_kept`). `outer` has the rows with a null: emitted
when `frontiers` have passed, corrected by what comes later (`is_fresh`: it came in the instant that
is not over). `marks` is what a restart could not find out again about a single event (`came_ns`).
`operator` is one query, `queries` all of a partition; `topology.flow.graph` brings their streams
together.
"""
