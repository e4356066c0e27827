"""CLOCK: finds the offset of each source's clock and its error, and corrects timestamps by it.

    sample        what is reported about a clock: a round of time sync, or a declared offset
    cell          offset and error over a short stretch of a source's time
    polygon       the set of all lines (offset, rate) that the rounds leave possible
    server_view   one sync server's rounds about one source: windows, falsetickers, jumps
    marzullo      the intervals that agree, out of several
    measured      all servers' views of one source together
    models        the interface of a model, which turns rounds into a clock
    one_way       sources that cannot sync: bounds from the arrivals alone
    drift_table   the samples of all sources, while they may be needed
    operator      the operator, which corrects the timestamp of each event once

The reasons are in docs/decisions/0006-clocks.md.
"""
