"""Joins events of two or more streams that belong together, by window or by distance in time.

An event passes through four modules. `entry` makes an entry of the event for each side that it
belongs to. `index` stores entries by side and key. `relation` decides which entries belong
together, certainly or possibly. `rows` combines these into rows. Rows without a null are emitted at
once (`results`).

Three more modules process an entry. `retention` decides how long it stays in the index, and which
entry is removed first if there are too many. `outer` emits rows with a null after the `frontiers`
have passed their end, and corrects them after later events. `marks` stores facts about single
events that cannot be derived after a restart.

`operator` runs one query, and `queries` all queries of a partition. `topology.stage.graph` merges
the events of their streams.
"""
