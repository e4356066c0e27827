"""End to end: the private PostgreSQL keeps what was committed through a kill."""

from __future__ import annotations

import psycopg
import pytest

from infra.postgres import PostgresServer

pytestmark = pytest.mark.postgres


def test_it_survives_a_kill(own_postgres: PostgresServer) -> None:
    with psycopg.connect(own_postgres.url) as connection:
        connection.execute("create table kept (x int)")
        connection.execute("insert into kept values (17)")
    own_postgres.kill()
    assert not own_postgres.process.is_alive()
    own_postgres.start()
    with psycopg.connect(own_postgres.url) as connection:
        assert connection.execute("select x from kept").fetchall() == [(17,)]
