"""Keeps a partition's local copy in Redis, for workers without a disk, or on changing hosts.

One hash holds the whole copy with its position. So expiry, eviction or a fail-over to a replica
that lags affects all of it, and the copy never mixes two commits. The field `p` is the position,
and `e` + key is an entry.

Redis is shared, so a worker that was paused and has lost its partition may still write. Every
change is a Lua script that checks the position first. It is applied only to a copy at `base`, so
such a worker gets StaleStore.

A change that is too large for one script (`CHANGES_PER_CALL`, `BYTES_PER_CALL`) is written in
pieces. Between them the position is a mark of this writer (`torn:<token>`), and the copy counts as
unusable. If the writer is interrupted there, the copy is rebuilt from the changelog.

A command is tried `ATTEMPTS` times if the connection fails, after `BACKOFF_S`, then twice that, and
so on. A server that has not answered at all yet is not asked again after `OPENING_S`. So a server
that hangs delays a start by some four seconds. Another copy on that server that is opened within
`HUNG_S` is refused at once (`hung_since_s`). So many partitions, which a few threads open one after
the other, wait no longer than one. A retry that finds its change already made counts as success,
because a position identifies the content of a copy.

`items` reads `ITEMS_PER_PAGE` fields at a time (Redis returns small hashes whole). The client
blocks, so call it from a thread.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final
from urllib.parse import quote

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from agents.state.stores import store
from agents.state.stores.store import Changes, StoreError, StoreName

CONNECT_TIMEOUT_S: Final = 2.0
ANSWER_TIMEOUT_S: Final = 4.0
ATTEMPTS: Final = 3
BACKOFF_S: Final = 0.1
OPENING_S: Final = 3.0
HUNG_S: Final = 10.0
"""Time after a server hung during which opening another copy on it fails at once."""

ITEMS_PER_PAGE: Final = 512
CHANGES_PER_CALL: Final = 10_000
BYTES_PER_CALL: Final = 8 << 20

_POSITION: Final = b"p"
_ENTRY: Final = b"e"
_TORN: Final = b"torn:"
_NOWHERE: Final = b""
"""The position in script arguments of a copy that is empty or unusable."""

_APPLY: Final = """
local current = redis.call('HGET', KEYS[1], 'p') or ''
local base, target, sets = ARGV[1], ARGV[2], tonumber(ARGV[3])
if base == '' then
  if current ~= '' and string.sub(current, 1, 5) ~= 'torn:' then return current end
  if string.sub(current, 1, 5) == 'torn:' and current == target then return current end
  redis.call('DEL', KEYS[1])
elseif current ~= base then
  return current
end
for i = 4, 3 + 2 * sets, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
for i = 4 + 2 * sets, #ARGV do redis.call('HDEL', KEYS[1], ARGV[i]) end
redis.call('HSET', KEYS[1], 'p', target)
return false
"""
"""Script that moves the copy from `base` to `target`; it returns nil, or the actual position."""

_CLEAR: Final = """
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then
  redis.call('UNLINK', KEYS[1])
  return false
end
local current = redis.call('HGET', KEYS[1], 'p') or ''
if current ~= '' and current ~= ARGV[1] and string.sub(current, 1, 5) ~= 'torn:' then
  return current
end
redis.call('UNLINK', KEYS[1])
return false
"""

Piece = tuple[list[bytes], list[bytes]]
"""The fields and values to set, alternating, and the fields to delete."""


hung_since_s: Final[dict[str, float]] = {}
"""The last time at which each server, by address, hung while a copy was being opened."""


class RedisStore:
    """A copy in Redis; see `agents.state.stores.store`.

    `client` must not retry by itself; use the client that `connect` returns. `address` is the
    address of its server. If a server hangs, only the first of the copies with its address waits
    for it.
    """

    def __init__(self, client: redis.Redis, name: StoreName, address: str = "") -> None:
        self._client = client
        self._name = name
        self._key = key_of(name)
        self._address = address or self._key
        self._seen: bytes | None = None
        self._has_answered = False
        self._closed = False

    def position(self) -> int | None:
        current = self._read_position()
        return int(current) if current.isdigit() else None

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        started_at = self._read_position()
        if not started_at.isdigit():
            return
        cursor = 0
        while True:
            cursor, page = self._run("HSCAN", self._key, cursor, "COUNT", ITEMS_PER_PAGE)
            for field, value in page.items():
                if field.startswith(_ENTRY):
                    yield field[1:], value
            if int(cursor) == 0:
                break
        if self._read_position() != started_at:
            raise store.StaleStore(f"state copy {self._name} changed while it was read")

    def apply(self, changes: Changes, base: int | None, position: int) -> None:
        store.check_change(changes, base, position)
        pieces = _split_changes(changes)
        torn = _TORN + secrets.token_hex(8).encode()
        current = _NOWHERE if base is None else str(base).encode()
        for piece in pieces[:-1]:
            self._apply(piece, current, torn)
            current = torn
        self._apply(pieces[-1], current, str(position).encode())

    def clear(self) -> None:
        if self._seen is None:
            self._read_position()
        current = self._run("EVAL", _CLEAR, 1, self._key, self._seen)
        if current is not None:
            raise self._make_stale_error(current, self._seen or _NOWHERE)
        self._seen = _NOWHERE

    def set_aside(self) -> str:
        """Delete the damaged copy, because memory of the shared Redis should not hold damaged data.

        Returns a readable description of what was done.
        """
        self._run("EVAL", _CLEAR, 1, self._key, self._seen or _NOWHERE)
        self._seen = _NOWHERE
        return f"{self._key} is deleted"

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._client.close()

    def _read_position(self) -> bytes:
        self._seen = self._run("HGET", self._key, _POSITION) or _NOWHERE
        if not (self._seen == _NOWHERE or self._seen.isdigit() or self._seen.startswith(_TORN)):
            raise self._make_damaged_error(f"has an invalid position, {self._seen!r}")
        return self._seen

    def _apply(self, piece: Piece, base: bytes, target: bytes) -> None:
        sets, deletes = piece
        arguments = (base, target, len(sets) // 2, *sets, *deletes)
        current, attempts = self._run_with_retries("EVAL", _APPLY, 1, self._key, *arguments)
        # The answer to an earlier attempt may have been lost after the change was made.
        if current is not None and not (attempts > 1 and current == target):
            raise self._make_stale_error(current, base)
        self._seen = target

    def _make_stale_error(self, current: bytes, base: bytes) -> store.StaleStore:
        return store.StaleStore(
            f"state copy {self._name} in Redis is at {_format(current)}, but the change begins at"
            f" {_format(base)}: another worker has written it"
        )

    def _run(self, *command: Any) -> Any:
        answer, _ = self._run_with_retries(*command)
        return answer

    def _run_with_retries(self, *command: Any) -> tuple[Any, int]:
        """Run a command; return its answer, and the number of attempts that were needed."""
        if self._closed:
            raise StoreError(f"state copy {self._name} is closed")
        hung_s = time.monotonic() - hung_since_s.get(self._address, -HUNG_S)
        if not self._has_answered and hung_s < HUNG_S:
            raise self._make_unavailable_error(
                f"it failed to answer less than {HUNG_S:.0f} s ago", 0
            )
        execute: Callable[..., Any] = self._client.execute_command
        attempts, began_s = 0, time.monotonic()
        while True:
            attempts += 1
            try:
                answer = execute(*command)
                if not self._has_answered:
                    self._has_answered = True
                    hung_since_s.pop(self._address, None)
                return answer, attempts
            except (redis.ConnectionError, redis.TimeoutError, redis.BusyLoadingError) as error:
                hangs = not self._has_answered and time.monotonic() - began_s >= OPENING_S
                if hangs:
                    hung_since_s[self._address] = time.monotonic()
                if hangs or attempts >= ATTEMPTS:
                    raise self._make_unavailable_error(error, attempts) from error
                time.sleep(BACKOFF_S * 2 ** (attempts - 1))
            except redis.RedisError as error:
                if str(error).startswith("WRONGTYPE"):
                    raise self._make_damaged_error("is not a hash") from error
                raise self._make_unavailable_error(error, attempts) from error

    def _make_damaged_error(self, what: str) -> store.StoreDamaged:
        return store.StoreDamaged(f"state copy {self._name} in Redis, {self._key}, {what}")

    def _make_unavailable_error(
        self, error: Exception | str, attempts: int
    ) -> store.StoreUnavailable:
        return store.StoreUnavailable(
            f"state copy {self._name}: Redis failed after {attempts} attempt(s): {error}; check"
            " that the server runs, has memory left, and that the address is right"
        )


def connect(url: str) -> redis.Redis:
    """Return a client with time-outs and without retries; nothing is sent yet."""
    client: redis.Redis = redis.Redis.from_url(
        url,
        socket_connect_timeout=CONNECT_TIMEOUT_S,
        socket_timeout=ANSWER_TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
        decode_responses=False,
    )
    return client


def key_of(name: StoreName) -> str:
    """Return the Redis key of a copy's hash; names with different parts have different keys."""
    parts = (name.application, name.stage, name.topic, str(name.partition))
    return "inorder:state:" + ":".join(quote(part, safe="") for part in parts)


def _format(current: bytes) -> str:
    return current.decode("ascii", "replace") or "nothing"


def _split_changes(changes: Changes) -> Sequence[Piece]:
    """Divide changes into pieces that each fit into one script call; return at least one piece."""
    pieces: list[Piece] = [([], [])]
    count = size = 0
    for key, value in changes.items():
        length = len(key) + len(value or b"")
        if count and (count >= CHANGES_PER_CALL or size + length > BYTES_PER_CALL):
            pieces.append(([], []))
            count = size = 0
        sets, deletes = pieces[-1]
        if value is None:
            deletes.append(_ENTRY + key)
        else:
            sets += (_ENTRY + key, value)
        count += 1
        size += length
    return pieces
