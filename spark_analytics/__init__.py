"""PySpark on the ordered topic: DataFrame in, DataFrame out.

Functions take and give DataFrames, bounded or streaming, and know nothing of Kafka; the
jobs around them (`jobs`) are thin. Times are long nanoseconds named `_ns`; where Spark's
windows need a timestamp, there is one too, in microseconds, rounded down.

| module       | what it answers                                                       |
|--------------|-----------------------------------------------------------------------|
| `decode`     | Kafka records as typed rows; what cannot be read, with a reason       |
| `aggregates` | counts, rates, sums, quantiles over windows of reference time         |
| `disorder`   | how disordered the raw topic was, what order has cost                 |
| `clocks`     | offsets, skew and error of each source over time                      |
| `results`    | window, match and join records folded to the current results          |
| `truth`      | every difference between the ordered topic and a plain sort           |
| `history`    | recorded events in order, and what queries find in them, as DataFrames |
| `topic_source` | topics as the data source `inorder`, in batches and as streams     |
| `archive`    | records as Parquet by stream and hour, and back                       |
"""
