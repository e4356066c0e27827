"""CLOCK: what a source's clock is wrong by, how sure that is, and the stamps made of it.

    sample        what is reported about a clock: a round of time sync, or a declared offset
    cell          offset and error over a short stretch of a source's time
    polygon       the set of all lines (offset, rate) that the rounds leave possible
    server_view   one sync server's rounds about one source: windows, falsetickers, jumps
    marzullo      which of several intervals agree
    measured      all servers' views of one source together
    models        how rounds become a clock: the interface of a model
    one_way       sources that cannot sync: bounds from the arrivals alone
    drift_table   the samples of all sources, as far as they are needed
    operator      the operator: every event gets its reference time, once

The reasons are in docs/decisions/0006-clocks.md.
"""
