"""Put the raw topic in order by a plain sort, and compare it with the ordered topic.

This is a batch job, slow and obviously correct, for streams with trusted clocks (`unsynced:
trust`): the corrected timestamp is `ts`. The first copy of each event counts. The order is
(corrected timestamp, source, epoch, seq) over all of a stream. Headers must contain the epoch, or
sources must not restart: an absent epoch counts as 0.

`differences` has a row for each disagreement, so none if all is well:

| `difference`      | the event                                                        |
|-------------------|------------------------------------------------------------------|
| `lost`            | is in the raw topic, and neither ordered nor late nor dead       |
| `invented`        | is ordered, and not in the raw topic                             |
| `twice`           | is ordered more than once                                        |
| `changed`         | is ordered with another key, value, type or time, or with an     |
|                   | error, which a trusted clock does not have                       |
| `misplaced`       | is unmarked, and sorts below an unmarked one before it in its    |
|                   | partition, so it is not where the sort puts it                   |
| `out_of_sequence` | is unmarked, and follows a later number of its source            |
| `strayed`         | is in another partition than most of its stream                  |
| `unreadable`      | is a record of the ordered topic that cannot be read             |

Marked events may be anywhere. `balance` counts both sides. The raw topic must have all records that
the ordered one was made from: a record removed by retention shows up as `invented`.

Each topic is read once, sorted by position and joined by event.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_analytics.decode import Decoded
from spark_analytics.disorder import EVENT, epoch, first_copies, window_of_earlier

SHOWN: Final = (*EVENT, "partition", "offset")
ORDER: Final = ("ref_ns", "source", "epoch", "seq")


def differences(
    raw: DataFrame,
    ordered: Decoded,
    streams: Sequence[str],
    aside: DataFrame,
    dead: DataFrame,
) -> DataFrame:
    """Return a row for each difference between the raw topic and the ordered one.

    Args:
        raw: Events of `decode.raw`.
        ordered: The result of `decode.split`.
        streams: The streams to compare.
        aside: Events of the late topic, also of `decode.raw`.
        dead: The coordinates of dead letters (`dead_letters`).
    """
    accepted = _mark_excused(first_copies(raw.where(F.col("stream").isin(*streams))), aside, dead)
    pairs = _add_comparison_columns(ordered.events).join(
        _prefix_columns(accepted), list(EVENT), "full"
    )
    found = F.filter(F.array(*_faults()), lambda disagreements: disagreements.isNotNull())
    disagreements = pairs.select(*SHOWN, F.explode(found).alias("_fault"))
    differences = disagreements.select("_fault.difference", *SHOWN, "_fault.detail")
    detail = F.concat_ws(": ", "reason", "detail").alias("detail")
    unread = ordered.bad.select(F.lit("unreadable").alias("difference"), *SHOWN, detail)
    return differences.unionByName(unread)


def dead_letters(records: DataFrame) -> DataFrame:
    """Return the coordinates of the records of dead letters, and the `reason` of each."""
    schema = "topic STRING, partition INT, offset BIGINT, reason STRING"
    read = F.from_json(F.col("value").cast("string"), schema)
    return records.select(read.alias("_d")).select("_d.*")


def balance(raw: DataFrame, ordered: Decoded, streams: Sequence[str]) -> DataFrame:
    """Count the raw records, distinct raw events, ordered and late events of each stream.

    The late events are the ordered events that are marked late.
    """
    names = raw.where(F.col("stream").isin(*streams)).groupBy("stream")
    left = names.agg(
        F.count(F.lit(1)).alias("raw"),
        F.count_distinct(F.struct("source", epoch(), "seq")).alias("different"),
    )
    right = ordered.events.groupBy("stream").agg(
        F.count(F.lit(1)).alias("ordered"), F.count_if(F.col("late") != "").alias("late")
    )
    return left.join(right, "stream", "full").na.fill(0)


def _mark_excused(accepted: DataFrame, aside: DataFrame, dead: DataFrame) -> DataFrame:
    """Add `excused` to accepted events: whether they may be absent from the ordered topic."""
    place = ["topic", "partition", "offset"]
    late = first_copies(aside).select(*EVENT, F.lit(True).alias("_side"))
    letters = dead.select(*place, F.lit(True).alias("_dead")).dropDuplicates(place)
    known = accepted.join(late, list(EVENT), "left").join(letters, place, "left")
    return known.withColumn("excused", F.col("_side").isNotNull() | F.col("_dead").isNotNull())


def _prefix_columns(accepted: DataFrame) -> DataFrame:
    carried = [F.col(name).alias(f"_{name}") for name in (*_CARRIED, "ts_ns", "excused")]
    return accepted.select(*EVENT, *carried)


def _add_comparison_columns(events: DataFrame) -> DataFrame:
    """Add columns to ordered events from which differences are found.

    `_copy` numbers the copies of an event. `_above` is the greatest key of earlier unmarked events
    of its partition and stream, and `_later` the greatest number of those of its source. `_home` is
    the partition with most events of the stream.
    """
    copies = Window.partitionBy(*EVENT).orderBy("topic", "partition", "offset")
    key = F.when(F.col("late") == "", F.struct(*ORDER))
    number = F.when(F.col("late") == "", F.struct("epoch", "seq"))
    in_partition = F.count(F.lit(1)).over(Window.partitionBy("stream", "partition"))
    counted = events.withColumns(
        {
            "_copy": F.row_number().over(copies),
            "_place": key,
            "_above": F.max(key).over(window_of_earlier("topic", "partition", "stream")),
            "_number": number,
            "_later": F.max(number).over(
                window_of_earlier("topic", "partition", "stream", "source")
            ),
            "_here": in_partition,
        }
    )
    home = F.max(F.struct("_here", "partition")).over(Window.partitionBy("stream"))
    return counted.withColumn("_home", home["partition"])


def _faults() -> list[Column]:
    """Return a column for each kind of difference: a struct where it applies, else null."""
    is_ordered, is_raw = F.col("_copy").isNotNull(), F.col("_excused").isNotNull()
    both = is_ordered & is_raw
    changes = [F.when(~F.col(name).eqNullSafe(F.col(f"_{name}")), F.lit(name)) for name in _CARRIED]
    changes.append(F.when(F.col("ref_ns") != F.col("_ts_ns"), F.lit("refTs")))
    changes.append(F.when(F.col("error_ns") != 0, F.lit("err")))
    changed = F.concat_ws(", ", *changes)
    nothing = F.lit(None).cast("string")
    return [
        _fault("lost", ~is_ordered & ~F.col("_excused"), nothing),
        _fault("invented", ~is_raw, nothing),
        _fault("twice", F.col("_copy") > 1, F.concat(F.lit("copy "), F.col("_copy"))),
        _fault("changed", both & (changed != ""), changed),
        _fault(
            "misplaced",
            F.col("_place") < F.col("_above"),
            F.concat(F.lit("below "), F.to_json("_above")),
        ),
        _fault(
            "out_of_sequence",
            F.col("_number") < F.col("_later"),
            F.concat(F.lit("after "), F.to_json("_later")),
        ),
        _fault(
            "strayed",
            F.col("partition") != F.col("_home"),
            F.concat(F.lit("its stream is in "), F.col("_home")),
        ),
    ]


_CARRIED: Final = ("key", "value", "type")


def _fault(difference: str, when: Column, detail: Column) -> Column:
    fault = F.struct(F.lit(difference).alias("difference"), detail.cast("string").alias("detail"))
    return F.when(when, fault)
