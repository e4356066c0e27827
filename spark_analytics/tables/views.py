"""Write one typed view for each query, and one for events, over the tables of a backfill.

Results keep their values as JSON, since queries differ. The view of a query returns the values of
its results as typed columns. It also has the id, the times and `current`: whether the row is the
newest revision of its result, and not retracted. The views are SQL text for Spark, DuckDB or Trino,
and writing them needs none of these engines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple, get_args

from topology.answer.settings import KeyText
from topology.base.paths import PAYLOAD, Names, parse_payload_path, split_arguments
from topology.config import DetectorQuery, JoinQuery, PatternQuery, Topology, WindowQuery
from topology.queries.pattern.tree import syntax
from topology.queries.window.aggregates.built_in import BUILT_IN

Viewed = WindowQuery | JoinQuery | PatternQuery
"""A query whose results have a view."""

Dialect = Literal["spark", "duckdb", "trino"]
DIALECTS: Final[tuple[Dialect, ...]] = get_args(Dialect)

Type = Literal["BIGINT", "DOUBLE", "BOOLEAN", "VARCHAR"]
"""The types as DuckDB and Trino name them; `VARCHAR` is Spark's STRING."""

SPELLINGS: Final[Mapping[Type, str]] = {
    "BIGINT": "TINYINT SMALLINT INT INTEGER BIGINT LONG",
    "DOUBLE": "FLOAT REAL DOUBLE",
    "BOOLEAN": "BOOLEAN",
    "VARCHAR": "STRING VARCHAR TEXT",
}
TYPES: Final = {name: kind for kind, names in SPELLINGS.items() for name in names.split()}
"""The types that the fields of a schema may have."""

RESULTS: Final[Mapping[str, Type]] = {"whole": "BIGINT", "real": "DOUBLE"}
"""The types of aggregates whose type does not depend on their values, by `BuiltIn.result`."""

OWN: Final[Mapping[str, Type]] = {
    "source": "VARCHAR",
    "type": "VARCHAR",
    "seq": "BIGINT",
    "epoch": "BIGINT",
    "time": "BIGINT",
    "ts": "BIGINT",
    "ref_time": "BIGINT",
    "error": "BIGINT",
}
"""The attributes that every event has; times are in ns."""

RESULT: Final = ("id", "start_time", "end_time")
EVENT: Final = (
    "stream", "source", "epoch", "seq", "type", "ref_time", "ref_ns", "error_ns", "late"
)  # fmt: skip
EXTRACT: Final[Mapping[Dialect, str]] = {
    "spark": "get_json_object",
    "duckdb": "json_extract_string",
    "trino": "json_extract_scalar",
}
CONDITIONS: Final = (
    *(syntax.Compare, syntax.And, syntax.Or, syntax.Not, syntax.IsNull, syntax.In),
    *(syntax.Between, syntax.Like, syntax.Same),
)
"""The expressions whose value is true or false."""
STATE: Final = ("revision", "final", "confidence", "at_ns")
TABLES: Final = {"window": "windows", "join": "joins", "pattern": "matches"}
CURRENT: Final = "newest = 1 AND op <> 'retract' AS current"
_FIELD: Final = re.compile(r"\s*(\S.*\S|\S)\s+([A-Za-z]+)\s*", re.ASCII)


class ViewsRefused(ValueError):
    """The error of a request that cannot become a view; the message says what to write."""


class Typed(NamedTuple):
    """A typed column of a view, read from the JSON in a column of the table.

    Attributes:
        name: The name in the view.
        held: The column of the table that contains the JSON.
        path: The path of the value in the JSON.
        type: The type to which the value is cast.
    """

    name: str
    held: str
    path: Sequence[str | int]
    type: Type


def schema_of(text: str) -> dict[Names, Type]:
    """Parse the types of payload fields, by path: `force DOUBLE, pos.x DOUBLE`."""
    fields: dict[Names, Type] = {}
    for each in filter(None, split_arguments(text)):
        found = _FIELD.fullmatch(each)
        kind = found and TYPES.get(found[2].upper())
        path = found and parse_payload_path(f"{PAYLOAD}.{found[1]}")
        if not path or not kind:
            raise ViewsRefused(
                f"--schema: {each.strip()!r} is not a field of a payload; write a path and one of"
                f" {', '.join(TYPES)}, like `force DOUBLE, pos.x DOUBLE`"
            )
        fields[path[1:]] = kind
    return fields


def views(
    topology: Topology,
    dialect: Dialect,
    table_of: Callable[[str], str],
    schema: Mapping[Names, Type] | None = None,
) -> Iterator[str]:
    """Yield the SQL statements that create the views, without semicolons.

    Queries come first, in the order of the file, then events if there is a `schema`. `table_of`
    returns the SQL that names a table in a FROM clause.
    """
    writer = _Writer(dialect, table_of)
    for name, query in topology.queries.items():
        if not isinstance(query, DetectorQuery):
            yield writer.results(name, query, columns_of(query, schema or {}))
    if schema:
        columns = [Typed("_".join(path), "payload", path, schema[path]) for path in schema]
        yield writer.events(columns)


def columns_of(query: Viewed, schema: Mapping[Names, Type]) -> list[Typed]:
    """Return the columns of a query's results: its key, then its values with any bounds."""
    if isinstance(query, PatternQuery):
        return [*_pattern_columns(query.pattern, schema)]
    columns = [] if query.key is None else [*_key_columns(query.key, schema)]
    if isinstance(query, JoinQuery):
        for name, value in query.values.items():
            columns.append(Typed(name, "values", (name,), _type_of_path(value.path, schema)))
        return columns
    for name, aggregate in query.aggregate.items():
        kind = _type_of_aggregate(aggregate.function, aggregate.path, schema)
        columns.append(Typed(name, "values", (name,), kind))
        if kind != "VARCHAR" and query.quality is not None:
            columns += [Typed(f"{name}_{end}", end, (name,), kind) for end in ("low", "high")]
    return columns


def _key_columns(key: KeyText, schema: Mapping[Names, Type]) -> Iterator[Typed]:
    """Yield the column `key`, or for a list a column like `key_site` for each of its values."""
    if isinstance(key, str):
        yield Typed("key", "key", (), _type_of_path(parse_payload_path(key) or (key,), schema))
        return
    for at, part in enumerate(key):
        path = parse_payload_path(part) or (part,)
        name = "_".join(("key", *(path[1:] or path)))
        yield Typed(name, "key", (at,), _type_of_path(path, schema))


def _pattern_columns(pattern: syntax.Query, schema: Mapping[Names, Type]) -> Iterator[Typed]:
    where = pattern.where
    parts = where.parts if isinstance(where, syntax.And) else (where,)
    keys = [path for part in parts if isinstance(part, syntax.Same) for path in part.paths]
    for at, path in enumerate(keys):
        yield Typed(path[-1], "key", (at,), _type_of_path(path, schema))
    for column in pattern.columns or ():
        yield Typed(column.name, "values", (column.name,), _type_of_expression(column.expr, schema))


def _type_of_expression(expr: syntax.Expr, schema: Mapping[Names, Type]) -> Type:
    match expr:
        case syntax.Ref(path=path) | syntax.Previous(path=path):
            return _type_of_path(path, schema)
        case syntax.AggregateCall(function=function, path=path):
            return _type_of_aggregate(function, path, schema)
        case syntax.Arithmetic() | syntax.Negative():
            return "DOUBLE"
        case _:
            return "BOOLEAN" if isinstance(expr, CONDITIONS) else "VARCHAR"


def _type_of_path(path: Sequence[str], schema: Mapping[Names, Type]) -> Type:
    if len(path) == 1 and path[0] in OWN:
        return OWN[path[0]]
    below = path[1:] if path[0] == "payload" else path
    return schema.get((*below,), "VARCHAR")


def _type_of_aggregate(function: str, path: Sequence[str], schema: Mapping[Names, Type]) -> Type:
    result = BUILT_IN[function].result if function in BUILT_IN else "value"
    if result in RESULTS:
        return RESULTS[result]
    known = _type_of_path(path, schema) if path else "VARCHAR"
    return "DOUBLE" if result == "number" and known == "VARCHAR" else known


class _Writer:
    def __init__(self, dialect: Dialect, table_of: Callable[[str], str]) -> None:
        self._dialect = dialect
        self._table_of = table_of

    def results(self, name: str, query: Viewed, columns: Sequence[Typed]) -> str:
        is_set = isinstance(query, PatternQuery) and query.pattern.sets
        members = [] if query.kind == "window" or is_set else ["events AS members"]
        lines = [*RESULT, *map(self._column_sql, columns), *members, *STATE, CURRENT]
        table = self._table_of("match_sets" if is_set else TABLES[query.kind])
        newest = "row_number() OVER (PARTITION BY id ORDER BY revision DESC) AS newest"
        rows = f"SELECT *, {newest} FROM {table} WHERE query = {self._text(name)}"
        return self._view(name, lines, f"({rows}) AS revisions")

    def events(self, columns: Sequence[Typed]) -> str:
        lines = [*EVENT, *map(self._column_sql, columns)]
        return self._view("typed_events", lines, self._table_of("events"))

    def _view(self, name: str, lines: Sequence[str], rows: str) -> str:
        made = "TEMPORARY VIEW" if self._dialect == "spark" else "VIEW"
        columns = ",\n    ".join(lines)
        return f"CREATE OR REPLACE {made} {self._name(name)} AS\nSELECT\n    {columns}\nFROM {rows}"

    def _column_sql(self, column: Typed) -> str:
        """Return the SQL of a typed column; the prefix `value_` avoids a name that is taken."""
        taken = {*RESULT, *STATE, *EVENT, "members", "current"}
        name = f"value_{column.name}" if column.name.lower() in taken else column.name
        return f"{self._value(column)} AS {self._name(name)}"

    def _value(self, column: Typed) -> str:
        path = self._text("$" + "".join(map(self._step, column.path)))
        text = f"{EXTRACT[self._dialect]}({self._name(column.held)}, {path})"
        return text if column.type == "VARCHAR" else f"TRY_CAST({text} AS {column.type})"

    def _step(self, step: str | int) -> str:
        if isinstance(step, int):
            return f"[{step}]"
        if self._dialect == "spark":
            # Spark's JSON paths have no escape character. After a dot, Spark accepts all characters
            # but `.` and `[`.
            found = f"['{step}']" if not {*"'?"} & {*step} else f".{step}"
            is_lost = found[0] == "." and bool({*".["} & {*step})
        else:
            found = f'."{step}"' if self._dialect == "duckdb" else f'["{step}"]'
            is_lost = bool({*'"\\'} & {*step})
        if is_lost:
            raise ViewsRefused(
                f"the value {step!r}: {self._dialect} has no JSON path for this name; rename it in"
                " the topology file, without quotes and dots"
            )
        return found

    def _name(self, name: str) -> str:
        mark = "`" if self._dialect == "spark" else '"'
        return f"{mark}{name.replace(mark, 2 * mark)}{mark}"

    def _text(self, text: str) -> str:
        if self._dialect == "spark":
            escaped = text.replace("\\", "\\\\").replace("'", "\\'")
        else:
            escaped = text.replace("'", "''")
        return f"'{escaped}'"
