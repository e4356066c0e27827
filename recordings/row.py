"""Define a row of a recording, and the meaning of its columns in any file format."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import orjson

from recordings.file import InputError
from recordings.near import near_name, suggest_column

BATCH_ROWS: Final = 8_192
TEXT_COLUMNS: Final = frozenset({"source", "stream", "type", "kind", "clock", "id"})
TIME_COLUMNS: Final = frozenset({"ts", "arrival", "at", "t1", "t2", "t3", "t4"})
INTEGER_COLUMNS: Final = TIME_COLUMNS | {"seq", "epoch", "partition", "offset", "error"}
PAYLOAD: Final = "payload"
INSIDE_PAYLOAD: Final = "payload."
_INTEGER: Final = re.compile(r"-?[0-9]{1,400}", re.ASCII)


SHOWN_NAMES: Final = 12
"""The maximum number of a file's columns that a message names."""


class Column(NamedTuple):
    """A column of a recording.

    Attributes:
        name: The name of the column.
        path: The path into the payload, empty for a column of the line itself.
        read: The function that converts the text of a cell to the value.
    """

    name: str
    path: tuple[str, ...]
    read: Callable[[str], Any]


def columns_of(
    names: list[str], path: str, needed: tuple[str, ...], remedy: str | None = None
) -> list[Column]:
    """Return the columns of these names; `remedy` is for names that are those of no column.

    Raises:
        InputError: A name occurs twice, a needed one is missing, or one is a part of another. Or
            the name of a field of the payload is not UTF-8.
    """
    _refuse_undecodable(filter(is_in_payload, names), path)
    seen = set(names)
    if not (seen.issuperset(needed) or "clock" in seen):
        missing = " and ".join(f"`{name}`" for name in needed if name not in seen)
        found = ", ".join(names[:SHOWN_NAMES]) + (", …" if len(names) > SHOWN_NAMES else "")
        if remedy is not None:
            raise InputError(f"{path}: there is no column {missing} among {found}; {remedy}")
        raise InputError(
            f"{path}: there is no column {missing} among {found}; name the columns like the keys of"
            " JSON lines: source, seq and, if there are such, ts, arrival, type, stream, epoch;"
            " call fields of the payload payload.NAME (docs/guides/connect.md); or name the columns"
            f" to use: {_options(names)}"
        )
    _refuse_repeated(names, path)
    _refuse_clash(seen, path)
    return [_make_column(name) for name in names]


def _options(names: Sequence[str]) -> str:
    """Return options that name the columns to use, where columns have names like those wanted."""
    near = ((wanted, near_name(wanted, tuple(names))) for wanted in ("source", "seq", "ts"))
    return " ".join(f"--{wanted} {shlex.quote(found or 'NAME')}" for wanted, found in near)


def refuse_missing(
    names: Sequence[str], path: str, needed: frozenset[str] | None, remedy: str | None = None
) -> None:
    """Check the names of a file's columns.

    `remedy` is for names that are probably those of no column. It is reported if a needed column is
    missing, or if `needed` is None, which means that columns are guessed by their names.

    Raises:
        InputError: The names are those of no column or not UTF-8, a needed one is missing, or two
            are equal.
    """
    _refuse_undecodable(names, path)
    if remedy is not None and needed is None:
        raise InputError(f"{path}: {remedy}")
    missing = sorted((needed or frozenset()).difference(names))
    if missing:
        found = ", ".join(names[:SHOWN_NAMES]) + (", …" if len(names) > SHOWN_NAMES else "")
        named = " and ".join(f"`{name}`" for name in missing)
        remedy = remedy or suggest_column(missing, names)
        raise InputError(f"{path}: there is no column {named} among {found}; {remedy}")
    _refuse_repeated(names, path)


def _refuse_undecodable(names: Iterable[str], path: str) -> None:
    """Refuse lone surrogates, which are bytes that are not UTF-8: no payload can have such keys."""
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        message = f"{path}: the column names are not UTF-8; save the file as UTF-8"
        raise InputError(message) from None


def _refuse_repeated(names: Sequence[str], path: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{path}: two columns are called `{twice[0]}`; rename one")


def _refuse_clash(names: Iterable[str], path: str) -> None:
    payload = sorted(name for name in names if is_in_payload(name))
    for outer in payload:
        for inner in payload:
            if inner.startswith(f"{outer}."):
                raise InputError(f"{path}: `{inner}` is a part of `{outer}`; keep only one of them")


def _make_column(name: str) -> Column:
    if name.startswith(INSIDE_PAYLOAD):
        return Column(name, tuple(name.split(".")[1:]), _json_or_text)
    if name in INTEGER_COLUMNS:
        return Column(name, (), _integer_or_text)
    return Column(name, (), orjson.loads if name == PAYLOAD else str)


def _integer_or_text(cell: str) -> int | str:
    return int(cell) if _INTEGER.fullmatch(cell) else cell


def _json_or_text(cell: str) -> Any:
    try:
        return orjson.loads(cell)
    except orjson.JSONDecodeError:
        return cell


def place(values: dict[str, Any], column: Column, value: Any) -> None:
    if not column.path:
        values[column.name] = value
        return
    inside = values.setdefault(PAYLOAD, {})
    for part in column.path[:-1]:
        inside = inside.setdefault(part, {})
    inside[column.path[-1]] = value


def is_known(name: str) -> bool:
    return name in TEXT_COLUMNS | INTEGER_COLUMNS or is_in_payload(name)


def is_in_payload(name: str) -> bool:
    return name == PAYLOAD or name.startswith(INSIDE_PAYLOAD)
