"""What each key of the topology file means, in a sentence: for the reference page and for editors.

By section and key as the file spells it. A test holds that every key has its words and that none
is left over; the full meaning is with the operator (docs/operators).

Proved by: tests/topology/config/test_reference.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "Topology": {
        "streams": "The streams by name; the name is their `streamId`.",
        "stages": "Where the chain is cut into processes. Left out, each operator is a stage, but"
        " `reorder+merge` share one, without a topic between, where each stream lies in one"
        " partition of its input: `keyed_by: stream`, or `topics.partitions: 1`.",
        "queries": "Windows, joins and patterns by name.",
        "functions": "A Python file beside this one with functions of your own.",
        "delivery": "`at_least_once` is seen sooner, and some of it twice after a crash.",
        "checkpoint": "How often outputs, state and offsets are committed, and so the latency of"
        " readers.",
        "application": "Names consumer groups, transactions and changelogs; a new one begins anew.",
        "topics": "The topics besides those of the streams, and how topics are made.",
        "state": "Where local copies of the state are kept.",
        "redis": "The Redis of `state: redis`; `--redis` keeps a password out of this file.",
        "heartbeat": "Watermarks are announced at multiples of it on the arrival clock.",
        "watermark": "Whether `events.ordered` holds watermarks.",
        "live_queries": "Whether patterns are taken from `topics.queries` while workers run.",
        "patterns_read": "Where patterns take their events; before the merge they answer sooner.",
        "windows_read": "Where windows take their events.",
        "joins_read": "Where joins take their events.",
        "tick_lag": "How far behind the broker's end time moves on where no record comes.",
        "spill_after": "What is held longer goes into the state; well below the input's retention.",
        "correct_for": "How long after the watermark late events change results; then they are"
        " final.",
        "max_batch": "The most records of one transaction.",
        "transaction_timeout": "After it a dead worker's open transaction no longer holds up"
        " readers.",
        "stuck_after": "A worker without progress for so long stops and is started anew.",
    },
    "TopicsConfig": {
        "partitions": "Partitions of every topic that `topics create` makes.",
        "replication": "Copies of every topic; left out, what the brokers' own setting says.",
        "sequenced": "Between reorder and merge.",
        "gaps": "The ledger of lost numbers.",
        "late": "Events that are late under `late: side`, or may be copies.",
        "dead": "Dead letters: what could not be used, why, and where it stands.",
        "clock": "Samples of time sync, and declared offsets.",
        "windows": "Results of windows.",
        "matches": "Results of patterns.",
        "joins": "Results of joins.",
        "queries": "Patterns that come and go (`live_queries`).",
        "resend": "Requests to send again (`inorder resend`); left out, there are none.",
        "max_record": "Key, value and headers of a record together; larger ones are dead.",
    },
    "StreamConfig": {
        "input": "The topic that producers write to.",
        "output": "The topic of events in order.",
        "keyed_by": "What producers key the input's records by. With `stream` each stream lies in"
        " one partition, and reorder and merge are one stage.",
        "signed": "Whether each record has to bear the signature of the source that it names"
        " (`INORDER_MASTER_KEYS_FILE`); one that does not is dead, `unsigned` or `forged`.",
        "headers": "What the headers of records are called, and the unit of `ts`.",
        "reorder": "Order within one source.",
        "clock": "How the clocks of sources are measured, and how far they are believed.",
        "merge": "Order across the sources of the stream.",
    },
    "HeaderConfig": {
        "preset": "The names all others differ from.",
        "ts_unit": "The unit of `ts` in headers and in lines of `replay` and `produce`.",
        "source": "The header of the source's name (`sourceId`).",
        "seq": "The header of the sequence number (`seqNum`).",
        "ts": "The header of the source's own time (`ts`).",
        "type": "The header of the event's type (`type`).",
        "epoch": "The header of the source's incarnation (`epoch`).",
        "stream": "The header of the stream's name (`streamId`).",
        "kind": "The header that marks heartbeats and byes (`kind`).",
        "sig": "The header of the signature (`sig`), in streams that are `signed`.",
    },
    "ReorderConfig": {
        "rule": "How long a hole is waited for; `time`: sources that number nothing.",
        "strategy": "Under `rule: time`, how long an event waits.",
        "accuracy": "Under `strategy: tail`, the share of events in order.",
        "wait": "Under `strategy: fixed`, how long.",
        "miss_target": "Under `rule: miss`, the share of holes that may outlive their wait.",
        "min_wait": "No hole is given up sooner.",
        "max_wait": "No hole is waited for longer.",
        "late": "What becomes of late events: passed on with a mark, dropped, or to `topics.late`.",
        "start": "The first number of a source; `auto` waits a little for smaller ones.",
        "infer_restart": "Whether small numbers after large ones are a new epoch.",
        "seq_bits": "The width of a counter that wraps.",
        "max_jump": "A number further ahead has to be confirmed by another near it.",
        "max_held": "Events held of one source; at the bound its oldest hole is given up.",
        "max_held_total": "Events held of all sources of a stream in a partition.",
        "max_held_bytes": "The same in bytes.",
        "max_sources": "Sources remembered; beyond, the longest idle one is forgotten.",
        "forget_after": "A source silent for so long that holds nothing is forgotten.",
        "gap_ranges": "Lost stretches remembered of a source, to tell late ones from copies.",
        "gap_memory": "How long they are remembered.",
        "alpha": "Weight of the past in the estimators of `thesis` and `rfc`.",
        "beta": "Weight of the past in their deviations.",
        "estimator_clock": "Which clock `thesis` and `rfc` measure by.",
    },
    "ClockConfig": {
        "sync": "`none`: samples are without effect, and the clock topic is not read.",
        "model": "How rounds of time sync are turned into a clock; `thesis` is for comparison.",
        "unsynced": "What an event of a source that has not synced gets.",
        "max_ahead": "A trusted stamp further after its arrival is dead.",
        "max_behind": "An event whose time lies further before its arrival is dead.",
        "servers": "How many time servers a source syncs with: most of them have to agree.",
        "max_error": "A source less sure than that counts as unsynced.",
        "sync_window": "How long a round of time sync counts.",
        "stale_after": "Without a good round for so long the error grows.",
        "max_rtt": "Rounds that took longer are rejected.",
        "max_skew": "How fast a clock may drift; too small breaks the stated error.",
        "wander": "How fast its rate may change.",
        "granularity": "How fine the source's clock and the server's can be read.",
        "activation": "From a sample's arrival until it applies.",
        "broker_slack": "How far the broker's clock may be off before an event refutes its source.",
        "passive_floor": "The longest that the quickest events usually take (`estimate`).",
        "mend_above": "A clock that is behind by less is left alone (`estimate`).",
        "jump_min": "What counts as a jump seen in events.",
    },
    "MergeConfig": {
        "wait": "How long a silent source is waited for; `thesis` is for comparison.",
        "miss_target": "The share of events that may come later than they are waited for.",
        "max_wait": "No source is waited for longer.",
        "idle_after": "A source silent for so long holds nobody back; above the silences it keeps.",
        "quiet_after": "Every source silent for so long: the watermark follows the clock.",
        "outage_wait": "How long at most sources are awaited after a pause of the log.",
        "max_queued": "Events queued of a stream; at the bound order gives way, counted.",
        "max_queued_bytes": "The same in bytes.",
        "expected_sources": "Sources that are waited for before they were first heard, for "
        "`max_wait` from the first event of all.",
        "newcomers": "Room for sources not heard before: how far results stay open for them; left"
        " out, `correct_for`.",
    },
    "QueryConfig": {
        "stream": "Which stream it reads; may be left out where there is one.",
        "window": "The windows of a window query.",
        "join": "When events belong together.",
        "pattern": "A pattern (docs/patterns.md).",
        "detector": "A detector of your own, by its name in the functions file.",
        "answer": "What is told before it is final: nothing; what is known, with corrections; or a"
        " detector runs ahead of the merge; `auto` chooses among these.",
        "speculate": "What running ahead, or `auto`, may take.",
        "reads": "What a detector reads: queries, whose results are events for it, and its stream,"
        " by name; left out, the stream alone.",
        "into": "The type of the events that its results are for detectors that read them; left"
        " out, its name. A pattern says it by INTO.",
        "key": "One result for each value of this path.",
        "aggregate": "Names, and what is computed of each window.",
        "sides": "The sides of a join by name.",
        "outer": "Whether what has no partner has a row.",
        "values": "Names, and paths that begin with a side.",
        "quality": "How good the first answer must be, and how long it may take.",
        "uncertainty": "What uncertain times do to the values.",
        "finals": "What was emitted before it was final is emitted once more when it is.",
        "correct_for": "How long late events change its results; at most the file's.",
        "early": "Open windows that have changed are emitted so often.",
        "max_windows": "Windows open or kept for corrections, over all keys.",
        "max_events": "Events a join or a detector keeps.",
        "max_rows": "Rows one event of a join may have.",
        "max_keys": "Keys with a state, of a detector.",
    },
    "SpeculateConfig": {
        "share": "The share of a processor.",
        "withdrawn": "The share of early results that may be taken back or changed; each then says"
        " how likely it `stands`.",
    },
    "QualityConfig": {
        "accuracy": "The share of first answers that must be right.",
        "max_wait": "No answer is waited for longer.",
        "strategy": "How the wait is found (docs/waiting.md).",
        "guard": "Under `risk`, how strictly the target is kept.",
        "wait": "Under `fixed`, how long.",
    },
    "SideConfig": {
        "stream": "Which stream; may be left out where there is one.",
        "type": "Events of this type alone.",
        "key": "Where it is called otherwise than on the other sides.",
    },
}
