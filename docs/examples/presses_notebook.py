"""Six presses: the notebook of docs/guides/spark.md, as Python in cells."""

# %% [markdown]
# # Six presses: disorder, what came of it, and who jams next
#
# A notebook in plain Python: `python docs/notebook.py docs/examples/presses_notebook.py FILE.ipynb`
# makes one for Jupyter of it, and editors that know `# %%` open it as it is. It reads the files of
# the tutorial ([docs/guides/spark.md](../guides/spark.md)): recorded lines, and the tables that
# `inorder spark backfill` made of them. Other lines, other streams: change the next cell.

# %%
from pathlib import Path

import duckdb
import matplotlib.pyplot as plt
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.evaluation import BinaryClassificationEvaluator
from pyspark.ml.feature import StandardScaler, VectorAssembler
from pyspark.sql import Window
from pyspark.sql import functions as F

from spark_analytics.session import new_session

# Jupyter starts in the folder of the notebook, an editor in that of the project.
here = next(each for each in (Path(), Path("build/presses")) if (each / "raw.jsonl").exists())
spark = new_session("presses")
raw = spark.read.json(str(here / "raw.jsonl")).where("source IS NOT NULL")
tables = {
    name: spark.read.parquet(str(here / "history" / name))
    for name in ("events", "late", "gaps", "windows", "matches")
}
{name: table.count() for name, table in tables.items()}

# %% [markdown]
# ## Disorder, before and after
#
# The plot shows how far each event is behind the newest before it. One series is in the order of
# arrival, by the presses' own timestamps. The other is the table `events`, by the corrected
# timestamp. Events that are still behind there are marked `late`: they came after their place had
# passed.

# %%
arrived = raw.orderBy("arrival").select("ts", "arrival").toPandas()
ordered = tables["events"].orderBy("stream", "position").select("ref_ns", "late").toPandas()
behind = {
    "as they arrived": (arrived.ts.cummax() - arrived.ts) / 1e6,
    "in order": (ordered.ref_ns.cummax() - ordered.ref_ns)[~ordered.late] / 1e6,
    "marked late": (ordered.ref_ns.cummax() - ordered.ref_ns)[ordered.late] / 1e6,
}
figure, axes = plt.subplots(figsize=(9, 4))
for name, each in behind.items():
    axes.plot(each.index, each, ".", markersize=2, label=f"{name}: {(each > 0).sum():,} behind")
axes.set(xlabel="event", ylabel="behind the newest before it, ms", yscale="symlog")
axes.legend(markerscale=4)
figure.savefig(here / "disorder.png", dpi=120)

# %% [markdown]
# ## Matches and their events
#
# A match names its events by their coordinates. Joined to `events` they tell what else was known:
# how sure the order of stroke and jam is, for one.

# %%
COORDINATES = "array<struct<alias: string, source: string, epoch: bigint, seq: bigint>>"
EVENT = ["stream", "source", "epoch", "seq"]
standing = tables["matches"].groupBy("id").agg(F.max_by(F.struct("*"), "revision").alias("m"))
standing = standing.select("m.*").where("op <> 'retract'")
parts = standing.withColumn("part", F.explode(F.from_json("events", COORDINATES)))
parts = parts.select("id", "stream", "part.*")
of_matches = parts.join(tables["events"], EVENT)
of_matches.groupBy("id").agg(
    F.first("source").alias("source"),
    ((F.max("ref_ns") - F.min("ref_ns")) / 1e6).alias("apart_ms"),
    (F.sum("error_ns") / 1e6).alias("unsure_by_ms"),
).orderBy("source", "apart_ms").show(5, truncate=False)

# %% [markdown]
# ## Features of each press, every five seconds
#
# The chain knows more than the values. It has missing numbers (`gaps`), the delay of events
# (`at_ns` is when their place was settled), and the certainty of their time. The windows are the
# current ones: of each `id` the highest revision.

# %%
FIVE = F.window("time", "5 seconds")["start"].alias("start")
VALUES = "n bigint, mean double, most double"
windows = tables["windows"].groupBy("id").agg(F.max_by(F.struct("*"), "revision").alias("w"))
windows = windows.select(
    F.col("w.start_time").alias("start"),
    F.get_json_object("w.key", "$").alias("source"),
    F.from_json("w.values", VALUES).alias("v"),
).select("start", "source", "v.*")

on_the_way = (
    tables["events"]
    .withColumn("time", F.col("ref_time"))
    .groupBy(FIVE, "source")
    .agg(
        F.avg((F.col("at_ns") - F.col("ref_ns")) / 1e6).alias("lag_ms"),
        F.max((F.col("at_ns") - F.col("ref_ns")) / 1e6).alias("longest_ms"),
        F.avg(F.col("error_ns") / 1e6).alias("error_ms"),
        F.avg(F.col("late").cast("double")).alias("late"),
        F.max((F.col("type") == "jam").cast("int")).alias("jams"),
    )
)
missing = tables["gaps"].withColumn(
    "time", F.timestamp_micros((F.col("ts_before_ns") / 1000).cast("long"))
)
missing = missing.groupBy(FIVE, "source").agg(
    F.sum(F.col("last") - F.col("first") + 1).alias("missing")
)
figures = windows.join(on_the_way, ["start", "source"], "left").join(
    missing, ["start", "source"], "left"
)
figures = figures.fillna(0)

# %% [markdown]
# What the last six windows said is the vector, whether one of the next four has a jam the question.
# Windows in which a jam lies, or whose past does, are left out: a press at rest is no riddle.

# %%
NAMES = ["n", "mean", "most", "lag_ms", "longest_ms", "error_ms", "late", "missing"]
course = Window.partitionBy("source").orderBy("start")
past, next_ = course.rowsBetween(-5, 0), course.rowsBetween(1, 4)
vectors = figures.select(
    "start",
    "source",
    *(F.avg(name).over(past).alias(name) for name in NAMES),
    F.max("jams").over(past).alias("was"),
    F.max("jams").over(next_).alias("label"),
).where("was = 0 AND label IS NOT NULL")
vectors = VectorAssembler(inputCols=NAMES, outputCol="raw").transform(vectors)
vectors.groupBy("label").count().show()

# %% [markdown]
# ## A small model
#
# The model is trained on the first ten minutes and asked about the last five. A random split would
# let it see the neighbours of the windows in question.

# %%
split = F.lit("2023-11-14 22:23:20").cast("timestamp")
train, test = vectors.where(F.col("start") < split), vectors.where(F.col("start") >= split)
scaler = StandardScaler(inputCol="raw", outputCol="features", withMean=True).fit(train)
model = LogisticRegression(maxIter=20, regParam=0.01).fit(scaler.transform(train))
answers = model.transform(scaler.transform(test))
area = BinaryClassificationEvaluator().evaluate(answers)
print(f"area under the curve {area:.3f}, where guessing has 0.5")
weights = dict(zip(NAMES, model.coefficients, strict=True))
for name, weight in sorted(weights.items(), key=lambda each: -abs(each[1])):
    print(f"{name:>10} {weight:+.2f}")

# %% [markdown]
# ## On without Spark
#
# The tables are files: DuckDB (`pip install duckdb`) reads them as they are. The highest
# revision of an `id` is current.

# %%
CURRENT = """
    FROM (SELECT arg_max(w, w.revision) AS r FROM read_parquet($files) AS w GROUP BY w.id)
    WHERE r.op <> 'retract'
"""
duck = duckdb.connect()
worst = duck.execute(
    f"""SELECT r.key AS press, count(*) AS windows,
        max(CAST(r.values ->> '$.most' AS DOUBLE)) AS most {CURRENT}
    GROUP BY press ORDER BY most DESC""",
    {"files": str(here / "history" / "windows" / "*.parquet")},
).df()
print(worst)
