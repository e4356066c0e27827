"""Examples: batches in a real PostgreSQL bear being written again, by whichever process."""

from __future__ import annotations

from datetime import UTC, datetime

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession

from infra.postgres import PostgresServer
from spark_analytics.jobs.jdbc import Jdbc, NameRefused, table_name
from tests.spark_analytics.marks import SPARK

pytestmark = [*SPARK, pytest.mark.postgres]

TABLE = "windows-Pitch 1"
NAME = "rates_windows_pitch_1"
START = datetime(2023, 11, 14, 22, 13, 20, 123456, UTC)


def rows(spark: SparkSession, *counts: int) -> DataFrame:
    made = ", ".join(f"({n})" for n in counts)
    return spark.sql(
        "SELECT timestamp_micros(1700000000123456) AS start, n, array(n) AS q,"
        f" named_struct('low', n) AS s, if(n = 0, NULL, 'k') AS key FROM VALUES {made} AS t(n)"
    )


def jdbc(server: PostgresServer) -> Jdbc:
    """As a new process would have it."""
    url = f"jdbc:postgresql://127.0.0.1:{server.port}/postgres"
    return Jdbc(url, "rates", {"user": "postgres"})


def test_a_batch_replaces_itself_and_nothing_else(
    spark: SparkSession, postgres_server: PostgresServer
) -> None:
    def found() -> list[tuple[int, int]]:
        with psycopg.connect(postgres_server.url) as connection:
            return connection.execute(f"select batch, n from {NAME} order by 1, 2").fetchall()

    first = jdbc(postgres_server)
    assert not first.holds(spark, TABLE)
    first.write(rows(spark, 1, 2), TABLE, ["n"], 0)
    first.write(rows(spark, 0, 3), TABLE, ["n"], 1)
    assert first.holds(spark, TABLE)
    assert found() == [(0, 1), (0, 2), (1, 0), (1, 3)]
    again = jdbc(postgres_server)
    again.write(rows(spark, 0, 3), TABLE, ["n"], 1)  # committed, and yet repeated
    again.write(rows(spark, 4), TABLE, ["n"], 2)
    assert found() == [(0, 1), (0, 2), (1, 0), (1, 3), (2, 4)]
    bounded = jdbc(postgres_server)
    bounded.write(rows(spark, 7, 7), TABLE, ["n"], 0)  # a task that staged its row twice
    assert found() == [(0, 7), (1, 0), (1, 3), (2, 4)]
    with psycopg.connect(postgres_server.url) as connection:
        connection.execute("set time zone 'UTC'")
        row = connection.execute(f'select "start", q, s, key from {NAME} where n = 0').fetchone()
        staged = connection.execute(f"select count(*) from staged_{NAME}").fetchone()
    assert row is not None
    assert (row[0].replace(tzinfo=UTC), *row[1:]) == (START, "[0]", '{"low":0}', None)
    assert staged == (0,)


def test_names_are_what_databases_take() -> None:
    assert table_name("rates-batch", "windows-Ä b") == "rates_batch_windows___b"
    with pytest.raises(NameRefused, match="shorter"):
        table_name("rates", "w" * 60)
