"""Keeps the marks of readers (`sinks.marks`) in a table beside the tables of results.

The table NAME lies in the schema of the results, and has a row for each partition of each reader of
each table. Another row for each table (topic_partition -1) has the table's id. That is its oid, the
number of its file, and the oid of the table of marks. A results table with another oid is another
table, and so is an empty one with another file (TRUNCATE). All its marks then become 0, which is
behind every committed offset. If both tables have other oids, and there are rows, both were
restored from one dump, and the marks are kept. A table with rows also keeps them if only its file
changes (VACUUM FULL). TRUNCATE of a partitioned table is not noticed, because such a table has no
file.

The marks are written in the transaction of the results, after them. The results lock their table.
So the id that is compared then cannot change before the commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import psycopg
from psycopg import sql

from sinks.sink import Marks, Progress, Reader, SinkUnusable

NAME: Final = "inorder_sink_mark"

Connection = psycopg.Connection[tuple[Any, ...]]

_FIND: Final = """
select n.nspname, c.relname, c.oid::text
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.oid = to_regclass(%s)
"""
_EXISTS: Final = "select to_regclass(%s) is not null"
_MAKE: Final = """
create table if not exists {marks} (
    target text not null,
    consumer_group text not null,
    topic text not null,
    topic_partition integer not null,
    next_offset bigint not null,
    table_id text,
    written_at timestamptz not null default now(),
    primary key (target, consumer_group, topic, topic_partition)
)
"""
_ID: Final = """
{oid} || '/' || coalesce(pg_relation_filenode({oid}::oid), 0) || '/' || {marks_oid}
"""

_ROW_OF_TABLE: Final = """
select table_id, {id} from (select 1) as one left join {marks}
on target = {target} and consumer_group = '' and topic = '' and topic_partition = -1
"""
_BEGIN: Final = """
insert into {marks} (target, consumer_group, topic, topic_partition, next_offset, table_id)
values ({target}, '', '', -1, (select count(*) from (select 1 from {table} limit 1) as any_row), %s)
"""
"""Creates the row of the table. Its `next_offset` is 1 if there were results before marks."""

_IS_EMPTY: Final = "select not exists (select 1 from {table})"
_VOID: Final = "update {marks} set next_offset = 0, written_at = now() where target = {target}"
_SET_ID: Final = """
update {marks} set table_id = %s
where target = {target} and consumer_group = '' and topic = '' and topic_partition = -1
"""
_READ: Final = """
select topic_partition, next_offset from {marks}
where target = {target} and (consumer_group, topic) in (('', ''), (%s, %s))
"""
_RAISE: Final = """
insert into {marks} as known (target, consumer_group, topic, topic_partition, next_offset)
select {target}, %s, %s, given.number, given.next
from unnest(%s::integer[], %s::bigint[]) as given (number, next)
on conflict (target, consumer_group, topic, topic_partition)
do update set next_offset = greatest(known.next_offset, excluded.next_offset), written_at = now()
"""
_MOVE: Final = """
update {marks} as known
set next_offset = greatest(known.next_offset, given.next), written_at = now()
from unnest(%s::integer[], %s::bigint[], %s::bigint[]) as given (number, least, next)
where known.target = {target} and known.consumer_group = %s and known.topic = %s
and known.topic_partition = given.number and known.next_offset >= given.least and {id} = %s
"""


class MarksMissing(psycopg.Error):
    """Marks are absent or lower than the sink knows, or the table is another one."""


class TableMarks:
    """The marks of one table of results; `name` is the table's name as it is written in SQL."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._table_id = ""
        self._statements: dict[str, sql.Composed] = {}

    def open(self, connection: Connection) -> None:
        """Create what is absent, and note whether the table of results is the known one.

        The caller has a transaction in which the table exists, and which others cannot have at the
        same time. Raises SinkUnusable if the user cannot create the table of marks.
        """
        found = connection.execute(_FIND, [self._name]).fetchone()
        assert found is not None
        schema, target, oid = found
        marks = sql.Identifier(schema, NAME)
        # The names are resolved for each statement, because they may mean other tables by then.
        oid_of = sql.SQL("to_regclass({})::oid")
        names = {
            "marks": marks,
            "table": sql.Identifier(schema, target),
            "target": sql.Literal(target),
            "id": sql.SQL(_ID).format(
                oid=oid_of.format(self._name), marks_oid=oid_of.format(marks.as_string())
            ),
        }
        self._statements = {
            text: sql.SQL(text).format(**names)
            for text in (_MAKE, _ROW_OF_TABLE, _BEGIN, _IS_EMPTY, _VOID, _SET_ID, _READ, _RAISE)
        } | {_MOVE: sql.SQL(_MOVE).format(**names)}
        self._make_if_absent(connection, marks.as_string())
        self._compare_table(connection, oid)

    def read(self, connection: Connection, reader: Reader) -> Marks:
        rows = connection.execute(self._statements[_READ], [reader.group, reader.topic]).fetchall()
        positions: dict[int, int] = dict(rows)
        return Marks(f"table {self._name}", positions, bool(positions.pop(-1, 0)))

    def raise_to(
        self, connection: Connection, reader: Reader, positions: Mapping[int, int]
    ) -> None:
        given = [reader.group, reader.topic, list(positions), list(positions.values())]
        connection.execute(self._statements[_RAISE], given)

    def move(self, connection: Connection, progress: Progress) -> None:
        """Move the marks in the transaction of the results; raise MarksMissing if they are lost."""
        steps = progress.steps
        if not steps:
            return
        columns = [list(column) for column in zip(*steps.values(), strict=True)]
        reader = progress.reader
        moved = connection.execute(
            self._statements[_MOVE],
            [list(steps), *columns, reader.group, reader.topic, self._table_id],
        )
        if moved.rowcount != len(steps):
            raise MarksMissing("its marks in inorder_sink_mark are absent or behind")

    def _make_if_absent(self, connection: Connection, marks: str) -> None:
        if connection.execute(_EXISTS, [marks]).fetchone() == (True,):
            return
        make = self._statements[_MAKE]
        try:
            connection.execute(make)
        except psycopg.errors.InsufficientPrivilege as error:
            text = " ".join(make.as_string(connection).split())
            raise SinkUnusable(
                f"table {self._name}: the user cannot create the table of marks beside it, which"
                f" show that no result is lost; let the schema's owner run: {text}; grant select,"
                f" insert, update on {marks} to {connection.info.user}"
            ) from error

    def _compare_table(self, connection: Connection, oid: str) -> None:
        row = connection.execute(self._statements[_ROW_OF_TABLE]).fetchone()
        assert row is not None
        known, self._table_id = row
        if known is None:
            connection.execute(self._statements[_BEGIN], [self._table_id])
        elif known != self._table_id:
            known_oid, _, known_marks = (*known.split("/"), "", "")[:3]
            is_restored = known_marks not in ("", self._table_id.split("/")[2])
            is_kept = known_oid == oid or is_restored
            if not is_kept or connection.execute(self._statements[_IS_EMPTY]).fetchone() == (True,):
                connection.execute(self._statements[_VOID])
            connection.execute(self._statements[_SET_ID], [self._table_id])
