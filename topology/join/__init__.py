"""Joins events of two or more streams that belong together, by window or by distance in time.

An event passes through four modules. `entry` makes an entry of it for each side that it is on.
`index` stores entries by side and key. `relation` finds which belong together, certainly or
possibly. `rows` makes rows of them. Full rows are emitted at once (`results`).

Three modules record facts about an entry. `retention` decides how long it stays in the index, and
which entry is removed first at the bound (`until_ns`, `is_kept`). `outer` emits rows with a null
when `frontiers` have passed, and corrects them after later events (`is_fresh`: the entry came in
the open instant). `marks` has the facts about single events that a restart could not derive
(`came_ns`).

`operator` runs one query, and `queries` all queries of a partition. `topology.flow.graph` brings
their streams together.
"""
