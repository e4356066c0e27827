"""Results in Redis: the latest by id, and a feed of changes, both trimmed.

Under a prefix, which lies in one slot of a cluster (`inorder:{NAME}:`):

    latest     hash: id -> the result's JSON as it came. What is retracted is not in it.
    feed       stream: an entry for each change that counted: `id`, `revision`, `op`, `result`
    revisions  hash: id -> the highest revision seen, of retracted results too
    recent     sorted set: ids in the order of their last change

One Lua script per call compares and sets by revision: latest, feed and revision change
together or not at all, so a reader never sees one without the others, and the feed holds
each change once, the revisions of an id rising. A change that came as a copy, or that a
newer one has overtaken, leaves no trace.

Bounds: `max_results` ids are kept, retracted ones among them; beyond that those whose
last change is longest ago are forgotten, with their revision. (So a result older than
`max_results` changes of others can be written again; a topic that is read in order comes
back to the truth all the same.) The feed keeps about `max_feed` entries, never fewer.
One call carries at most RESULTS_PER_CALL results or BYTES_PER_CALL bytes; a larger result is
refused, so that in bytes, too, `max_results` and `max_feed` are bounds.

A server at `maxmemory` refuses what needs room, so the script never comes to its own
trimming. Then what exceeds the bounds is trimmed by calls that only free (MAX_TRIMS of them
at most), and the results are written again: lowering the bounds is a remedy.

As durable as the server: with `appendfsync always` what was written survives its crash;
with less it can forget what it has confirmed. It must not evict (`noeviction`), since a
revision that was removed lets an older one in.

What may pass (PASSING) is tried ATTEMPTS times, waiting BACKOFF_S, then twice that, each time
by a new connection to the address as it resolves then: after a failover a server that has
become a replica answers READONLY, and the name leads to the new master. A repeated script finds
its own revisions and changes nothing. A wrong password and missing rights are SinkUnusable.

In a cluster all keys of a NAME lie in one slot, so one node serves them: a MOVED is followed
to it, and when that node does not answer the given address is asked again. It should be a
name that leads to several nodes. Cost: O(log max_results) for each result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import redis
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.exceptions import (
    AskError,
    AuthorizationError,
    ClusterError,
    MovedError,
    NoPermissionError,
    TryAgainError,
)
from redis.retry import Retry

from sinks import attempts
from sinks.result import Result, newest, pieces
from sinks.sink import Refused, SinkError, SinkUnavailable, SinkUnusable

CONNECT_TIMEOUT_S: Final = 2.0
ANSWER_TIMEOUT_S: Final = 5.0
CLUSTER: Final = (AskError, ClusterError, TryAgainError)
"""The first one is MOVED, too."""
PASSING: Final = (redis.ConnectionError, redis.TimeoutError, redis.ReadOnlyError, *CLUSTER)
"""Errors that may be over in a moment, or with another connection."""
NOT_ALLOWED: Final = (redis.AuthenticationError, AuthorizationError, NoPermissionError)
MAX_TRIMS: Final = 1_000
RESULTS_PER_CALL: Final = 500
BYTES_PER_CALL: Final = 4 << 20
TOO_LARGE: Final = f"has more than {BYTES_PER_CALL >> 20} MiB, which is what is kept of one result"

_FORGET_PER_CALL: Final = 1_000
"""At least twice RESULTS_PER_CALL, so that a lowered bound is reached in time."""

_BOUNDS: Final = """
local latest, feed, revisions, recent = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local max_results, max_feed, forget = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
"""
_FORGET: Final = """
local excess = math.max(0, math.min(redis.call('ZCARD', recent) - max_results, forget))
if excess > 0 then
  local gone = redis.call('ZPOPMIN', recent, excess)
  for i = 1, #gone, 2 do
    redis.call('HDEL', latest, gone[i])
    redis.call('HDEL', revisions, gone[i])
  end
end
"""
_TRIM: Final = f"""{_BOUNDS}{_FORGET}
return excess + redis.call('XTRIM', feed, 'MAXLEN', '~', max_feed)
"""
"""Commands that need no memory, so a full server runs it."""

_WRITE: Final = f"""{_BOUNDS}
local last = redis.call('ZREVRANGE', recent, 0, 0, 'WITHSCORES')
local turn = tonumber(last[2] or '0')
for i = 4, #ARGV, 4 do
  local id, revision, op, result = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local known = redis.call('HGET', revisions, id)
  if not known or tonumber(revision) > tonumber(known) then
    if op == 'retract' then redis.call('HDEL', latest, id)
    else redis.call('HSET', latest, id, result) end
    redis.call('XADD', feed, 'MAXLEN', '~', max_feed, '*',
      'id', id, 'revision', revision, 'op', op, 'result', result)
    turn = turn + 1
    redis.call('ZADD', recent, string.format('%.0f', turn), id)
    redis.call('HSET', revisions, id, revision)
  end
end
{_FORGET}
return excess
"""
"""The revision is noted last: a script that fails midway is done again, not passed over."""


@dataclass(frozen=True, slots=True)
class RedisBounds:
    """See the module's docstring; a result counts twice if it is in the feed."""

    max_results: int = 1_000_000
    max_feed: int = 100_000

    def __post_init__(self) -> None:
        if self.max_results < 1 or self.max_feed < 1:
            raise ValueError(f"{self!r}: a bound below 1 keeps nothing; write 1 or more")


class RedisKeys(NamedTuple):
    """What readers look into."""

    latest: str
    feed: str
    revisions: str
    recent: str


def keys_of(name: str) -> RedisKeys:
    """ValueError for a name that would leave its slot."""
    if not name or "{" in name or "}" in name:
        raise ValueError(f"{name!r} is no name for results; leave braces out")
    prefix = f"inorder:{{{name}}}:"
    return RedisKeys(*(prefix + each for each in RedisKeys._fields))


class RedisSink:
    """See `sinks.sink`. `client` must not retry by itself: `connect` makes one."""

    def __init__(self, client: redis.Redis, name: str, bounds: RedisBounds | None = None) -> None:
        self._given = client
        self._client = client
        """Another than the given one where a cluster has named the node of our slot."""
        self._name = name
        self._keys = keys_of(name)
        self._bounds = bounds or RedisBounds()
        backoff = ExponentialBackoff(cap=60.0, base=attempts.BACKOFF_S / 2)
        self._retry = Retry(backoff, attempts.ATTEMPTS - 1, PASSING)
        self._closed = False

    def write(self, results: Sequence[Result]) -> Sequence[Refused]:
        if self._closed:
            raise SinkError(f"the sink of {self._name} in Redis is closed")
        fitting = [each for each in results if len(each.record) <= BYTES_PER_CALL]
        try:
            for piece in pieces(newest(fitting), RESULTS_PER_CALL, BYTES_PER_CALL):
                self._write(piece)
        except redis.RedisError as error:
            raise self._failure(error) from error
        return [Refused(each, TOO_LARGE) for each in results if len(each.record) > BYTES_PER_CALL]

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._client.close()
            self._given.close()

    def _write(self, piece: Sequence[Result]) -> None:
        arguments: list[Any] = []
        for result in piece:
            arguments += (result.id.encode(), result.revision, result.op, result.record)
        try:
            self._run(_WRITE, arguments)
        except redis.OutOfMemoryError:
            self._trim()
            self._run(_WRITE, arguments)

    def _trim(self) -> None:
        """Until nothing is above the bounds; what is left then the next write goes on with."""
        for _ in range(MAX_TRIMS):
            if not self._run(_TRIM, ()):
                return

    def _run(self, script: str, arguments: Sequence[Any]) -> Any:
        bounds = (self._bounds.max_results, self._bounds.max_feed, _FORGET_PER_CALL)
        command = ("EVAL", script, len(self._keys), *self._keys, *bounds, *arguments)

        def once() -> Any:
            execute: Callable[..., Any] = self._client.execute_command
            try:
                return execute(*command)
            except NOT_ALLOWED as error:  # of which some pass for lost connections
                raise self._failure(error) from error

        return self._retry.call_with_retry(once, self._turn_to_another)

    def _turn_to_another(self, error: Exception) -> None:
        """The next attempt's connection: to where a cluster points, else to the address."""
        self._client.close()
        self._client = _pointed_to(self._given, error) or self._given

    def _failure(self, error: redis.RedisError) -> SinkError:
        what = f"results {self._name}: Redis"
        if isinstance(error, NOT_ALLOWED) or "The user executing the script" in str(error):
            return SinkUnusable(
                f"{what} does not let us in: {error}; give the right user and password in the URL,"
                " and that user the right to EVAL and to the commands of hashes, streams and sorted"
                f" sets on {self._keys.latest[:-6]}*"
            )
        if "WRONGTYPE" in str(error):
            return SinkUnusable(
                f"results {self._name}: a key of Redis below {self._keys.latest[:-6]} holds"
                " something else; delete it, or choose another name"
            )
        return SinkUnavailable(f"{what} {_message(error)}")


def _pointed_to(given: redis.Redis, error: Exception) -> redis.Redis | None:
    """A client of the node that a MOVED names, else None."""
    pool = given.connection_pool if isinstance(error, MovedError) else None
    if pool is None or "path" in pool.connection_kwargs:
        return None
    assert isinstance(error, MovedError)
    host = error.host or pool.connection_kwargs.get("host")  # empty: the host that was asked
    settings = {**pool.connection_kwargs, "host": host, "port": error.port}
    return redis.Redis.from_pool(type(pool)(pool.connection_class, **settings))


def _message(error: redis.RedisError) -> str:
    """What happened, and what to do."""
    tries = f"after {attempts.ATTEMPTS} attempt(s)"
    match error:
        case redis.OutOfMemoryError():
            return (
                "is full (maxmemory), and nothing is above the bounds; give it more memory, or"
                " lower --max-results or --max-feed"
            )
        case redis.ReadOnlyError():
            return (
                f"is a replica, read-only, {tries}; the address must lead to the master, after a"
                " failover too"
            )
        case AskError() | ClusterError() | TryAgainError():
            return (
                f"is a cluster that does not serve our slot {tries}: {error}; check that it"
                " is whole, and that each node can be reached from here by the name it announces"
            )
        case redis.ConnectionError() | redis.TimeoutError():
            return (
                f"failed {tries}: {error}; check that the server runs, and that the address is"
                " right"
            )
    return f"refuses: {error}; the server's own settings or state are in the way"


def connect(url: str) -> redis.Redis:
    """A client with time-outs and without retries of its own; nothing is sent yet.

    ValueError for a URL that is none.
    """
    client: redis.Redis = redis.Redis.from_url(
        url,
        socket_connect_timeout=CONNECT_TIMEOUT_S,
        socket_timeout=ANSWER_TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
        decode_responses=False,
    )
    return client


def address_of(client: redis.Redis) -> str:
    """Which server and which of its databases, without secrets."""
    given = client.connection_pool.connection_kwargs
    server = given.get("path") or f"{given.get('host')}:{given.get('port', 6379)}"
    return f"{server}/{given.get('db') or 0}"
