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
One call carries at most RESULTS_PER_CALL results or BYTES_PER_CALL bytes.

As durable as the server: with `appendfsync always` what was written survives its crash;
with less it can forget what it has confirmed. It must not evict (`noeviction`), since a
revision that is gone lets an older one in.

A lost connection is retried ATTEMPTS times, waiting BACKOFF_S, then twice that, and so on;
a repeated script finds its own revisions and changes nothing. Cost: O(log max_results)
for each result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from sinks.attempts import insist
from sinks.result import Result, newest
from sinks.sink import Refused, SinkError, SinkUnavailable, SinkUnusable

CONNECT_TIMEOUT_S: Final = 2.0
ANSWER_TIMEOUT_S: Final = 5.0
PASSING: Final = (redis.ConnectionError, redis.TimeoutError, redis.BusyLoadingError)
"""Errors that may be over in a moment."""
RESULTS_PER_CALL: Final = 500
BYTES_PER_CALL: Final = 4 << 20

_FORGET_PER_CALL: Final = 1_000
"""At least twice RESULTS_PER_CALL, so that a lowered bound is reached in time."""

_WRITE: Final = """
local latest, feed, revisions, recent = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local max_results, max_feed, forget = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
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
local excess = math.min(redis.call('ZCARD', recent) - max_results, forget)
if excess > 0 then
  local gone = redis.call('ZPOPMIN', recent, excess)
  for i = 1, #gone, 2 do
    redis.call('HDEL', latest, gone[i])
    redis.call('HDEL', revisions, gone[i])
  end
end
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


@dataclass(frozen=True, slots=True)
class RedisKeys:
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
    return RedisKeys(*(prefix + each for each in ("latest", "feed", "revisions", "recent")))


class RedisSink:
    """See `sinks.sink`. `client` must not retry by itself: `connect` makes one."""

    def __init__(self, client: redis.Redis, name: str, bounds: RedisBounds | None = None) -> None:
        self._client = client
        self._name = name
        self._keys = keys_of(name)
        self._bounds = bounds or RedisBounds()
        self._closed = False

    def write(self, results: Sequence[Result]) -> Sequence[Refused]:
        for piece in _pieces(newest(results)):
            self._write(piece)
        return ()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._client.close()

    def _write(self, piece: Sequence[Result]) -> None:
        keys, bounds = self._keys, self._bounds
        arguments: list[Any] = [bounds.max_results, bounds.max_feed, _FORGET_PER_CALL]
        for result in piece:
            arguments += (result.id.encode(), result.revision, result.op, result.record)
        self._try(
            "EVAL", _WRITE, 4, keys.latest, keys.feed, keys.revisions, keys.recent, *arguments
        )

    def _try(self, *command: Any) -> Any:
        if self._closed:
            raise SinkError(f"the sink of {self._name} in Redis is closed")
        return insist(lambda attempt: self._execute(attempt, *command), PASSING, self._unavailable)

    def _execute(self, attempt: int, *command: Any) -> Any:
        execute: Callable[..., Any] = self._client.execute_command
        try:
            return execute(*command)
        except PASSING:
            raise
        except redis.RedisError as error:
            if "WRONGTYPE" in str(error):
                raise SinkUnusable(
                    f"results {self._name}: a key of Redis below {self._keys.latest[:-6]} holds"
                    " something else; delete it, or choose another name"
                ) from error
            raise self._unavailable(error, attempt) from error

    def _unavailable(self, error: Exception, attempts: int) -> SinkUnavailable:
        return SinkUnavailable(
            f"results {self._name}: Redis failed after {attempts} attempt(s): {error}; check that"
            " the server runs, has memory left, and that the address is right"
        )


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


def _pieces(results: Sequence[Result]) -> Iterator[Sequence[Result]]:
    """Cut into what one call may carry."""
    piece: list[Result] = []
    size = 0
    for result in results:
        if piece and (len(piece) >= RESULTS_PER_CALL or size + len(result.record) > BYTES_PER_CALL):
            yield piece
            piece, size = [], 0
        piece.append(result)
        size += len(result.record)
    if piece:
        yield piece
