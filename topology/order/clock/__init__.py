"""CLOCK: estimates the offset and error of each source's clock, and corrects timestamps with them.

    operator      the operator, which corrects the timestamp of each event once
    plain         a faster path of the operator, for runs of similar events
    source_clock  the state of one source: its clock, its latest timestamps, votes for a jump
    drift_table   the clock reports about all sources
    sample        one report about a clock: a round of time sync or a declared offset
    models        the interface of a model, which turns rounds into a clock
    measured      the default model: the views of all servers about one source, combined
    server_view   one sync server's rounds about one source: windows, falsetickers, jumps
    polygon       the set of all lines (offset, rate) that are consistent with the rounds
    marzullo      the intervals, out of several, that agree
    one_way       sources that cannot sync: bounds from the arrivals alone
    cell          the offset and error of a clock over about one second of a source's time
    settings      the section `clock` of a stream

`sample` is in `topology.base`. The reasons are in docs/decisions/0006-clocks.md.
"""
