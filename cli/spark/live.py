"""`inorder spark live` puts topics in order as they grow, on Spark alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cli.kafka_options import security
from cli.signing import master_keys
from cli.spark.around import report_plain_errors, require_spark
from cli.spark.options import session_options, stream_options
from cli.topology_file import load

if TYPE_CHECKING:
    from cli.spark.job import Asked
    from spark_analytics.executors.setting import Setting


@click.command("live")
@stream_options("LIVE", every="1s", max_per_batch=100_000)
@click.option(
    "--max-waiting",
    type=click.IntRange(min=1),
    default=1_000_000,
    help="Most lines of a group that wait for partitions that are behind.",
)
@session_options
def command(
    topology_path: str,
    brokers: str,
    kafka_path: str | None,
    max_waiting: int,
    **rest: Any,
) -> None:
    """Run a topology on growing topics, on Spark alone; write tables."""
    topology = load(topology_path)
    # This only checks the keys: each executor reads them from its own environment.
    master_keys(topology, {stream.input for stream in topology.streams.values()})
    access = security(kafka_path)
    require_spark()
    from cli.spark.job import Asked
    from spark_analytics.executors.setting import setting_of

    asked = Asked(job="live", topology=topology, brokers=brokers, security=access, **rest)
    with report_plain_errors("live"):
        _run_live(asked, setting_of(topology_path, topology), max_waiting)


def _run_live(asked: Asked, setting: Setting, max_waiting: int) -> None:
    from cli.spark.job import (
        ids_of,
        make_output,
        make_topic_check,
        open_job_session,
        run_queries,
        topics_of,
    )
    from spark_analytics.backfill.archived import find_topics_to_read
    from spark_analytics.executors.setting import digests
    from spark_analytics.executors.shipping import ship
    from spark_analytics.jobs.topics import KafkaTopics
    from spark_analytics.live.in_lake import COLUMNS
    from spark_analytics.live.run import check_session, lag_ms, partitions_of, table

    brokers = asked.connect_brokers()
    names = find_topics_to_read(asked.topology)
    ids = ids_of(asked, brokers, names)
    partitions = partitions_of(asked.topology, brokers.count_partitions(names))
    with open_job_session(asked) as spark, ship(spark):
        check_session(spark)
        topics = topics_of(asked, spark)
        assert isinstance(topics, KafkaTopics)
        records, in_lake = topics.records(*names), bool(asked.formats)
        lag = lag_ms(asked.topology)
        found = table(records, setting, partitions, lag, max_waiting, in_lake=in_lake)
        there = make_output(asked, [found], spark)
        about = {**asked.about(ids), "topology": digests(setting), "columns": COLUMNS}
        run_queries(asked, spark, [found], there, about, make_topic_check(asked, brokers, ids))
