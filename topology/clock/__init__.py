"""CLOCK: estimates the offset and error of each source's clock, and corrects timestamps with them.

    sample        one report about a clock: a round of time sync or a declared offset
    cell          the offset and error of a clock over a short stretch of a source's time
    polygon       the set of all lines (offset, rate) that are consistent with the rounds
    server_view   one sync server's rounds about one source: windows, falsetickers, jumps
    marzullo      the intervals, out of several, that agree
    measured      the views of all servers about one source, combined
    models        the interface of a model, which turns rounds into a clock
    one_way       sources that cannot sync: bounds from the arrivals alone
    drift_table   the samples of all sources, for as long as they may be needed
    operator      the operator, which corrects the timestamp of each event once

The reasons are in docs/decisions/0006-clocks.md.
"""
