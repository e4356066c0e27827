"""Writes results into Redis: the latest result of each id, and a feed of changes, both trimmed.

All keys begin with `inorder:{NAME}:`, whose braces keep them in one slot of a cluster:

    latest     hash: id -> the result's JSON as it arrived; without retracted results
    feed       stream: an entry for each effective change: `id`, `revision`, `op`, `result`
    revisions  hash: id -> the highest revision seen, also of retracted results
    recent     sorted set: ids in the order of their last change
    marks      hash: topic/partition/group -> the next offset that the group reads (`sinks.marks`)

One Lua script per call compares revisions and writes the newer results. So no reader sees a change
in `latest` without that in `feed` and `revisions`. The feed has each change once, with ascending
revisions of an id. A duplicate, and a change that is older than the stored one, change nothing.

Each call requires the marks, and the last call of a batch moves them. If `revisions` is gone, the
marks count as lost too.

Bounds: `max_results` ids are stored, including retracted ones. Beyond that, the ids whose last
change is oldest are forgotten, with their revision. (So a result older than `max_results` changes
of others can be written again. A topic that is read in order still leads to the right state.) The
feed is trimmed to about `max_feed` entries, never to fewer. One call has at most `RESULTS_PER_CALL`
results and `BYTES_PER_CALL` bytes. A larger result is refused, so that `max_results` and `max_feed`
also bound the bytes.

A server at `maxmemory` refuses commands that need memory, so the script fails before it trims. Then
at most `MAX_TRIMS` calls, which only free memory, remove the entries above the bounds, and the
results are written again. So lower bounds help.

The server's settings decide how durable results are: with `appendfsync always` they survive its
crash. With weaker settings the server can lose confirmed results. It must not evict (`noeviction`),
because after the removal of a revision an older one would be accepted. The loss of `latest` alone
would not be noticed. A sink warns of a server that may evict, when it first reads the marks.

A command that fails with a temporary error (PASSING) is tried `ATTEMPTS` times, with a pause of
`BACKOFF_S` and then twice that. Each attempt resolves the address again and opens a new connection.
After a failover a server that has become a replica answers READONLY, and the name leads to the new
master. A repeated script finds its own revisions and changes nothing. A wrong password and missing
rights raise SinkUnusable.

In a cluster all keys of a NAME are in one slot, so one node serves them. The client follows a MOVED
reply to that node. If that node does not answer, the client asks the given address again, so this
should be a name that resolves to several nodes. Cost: O(log max_results) for each result.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from sinks.result import Result, select_newest, split_results
from sinks.sink import (
    BegunAnew,
    Marks,
    Progress,
    Reader,
    Refused,
    SinkError,
    SinkUnavailable,
    SinkUnusable,
)

CONNECT_TIMEOUT_S: Final = 2.0
ANSWER_TIMEOUT_S: Final = 5.0
CLUSTER: Final = (AskError, ClusterError, TryAgainError)
"""The errors of a cluster; the error for MOVED is a subclass of the first one."""
PASSING: Final = (redis.ConnectionError, redis.TimeoutError, redis.ReadOnlyError, *CLUSTER)
"""Temporary errors, which a later attempt or another connection may avoid."""
NOT_ALLOWED: Final = (redis.AuthenticationError, AuthorizationError, NoPermissionError)
MAX_TRIMS: Final = 1_000
RESULTS_PER_CALL: Final = 500
BYTES_PER_CALL: Final = 4 << 20
TOO_LARGE: Final = f"has more than {BYTES_PER_CALL >> 20} MiB, the limit for one result"

_FORGET_PER_CALL: Final = 1_000
"""The maximum number of ids that one call forgets.

Each call can forget at least twice as many ids as it adds, so a lowered bound is reached in time.
"""

NO_EVICTION: Final = "noeviction"
"""The setting `maxmemory-policy` of a server that removes no keys."""

MARKS_LOST: Final = -1
OLDER: Final = b"older"
"""The field of `marks` that is 1 if there were results before there were marks."""

_BOUNDS: Final = """
local latest, feed, revisions, recent, marks = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
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
"""A script that trims with commands that need no memory, so that a full server runs it."""

_LOSE: Final = """
if redis.call('HEXISTS', marks, 'filled') == 1 and redis.call('HLEN', revisions) == 0 then
  for _, field in ipairs(redis.call('HKEYS', marks)) do redis.call('HDEL', marks, field) end
  redis.call('HSET', marks, 'older', 0)
end
"""
"""Removes the marks if the results are gone. The field `filled` says that there were some."""

_LOOK: Final = f"""{_BOUNDS}{_LOSE}
if redis.call('HEXISTS', marks, 'older') == 0 then
  local filled = redis.call('HLEN', revisions) > 0
  redis.call('HSET', marks, 'older', filled and 1 or 0)
  if filled then redis.call('HSET', marks, 'filled', 1) end
end
return redis.call('HGETALL', marks)
"""
_RAISE: Final = f"""{_BOUNDS}
for i = 4, #ARGV, 2 do
  local known = redis.call('HGET', marks, ARGV[i])
  if not known or tonumber(ARGV[i + 1]) > tonumber(known) then
    redis.call('HSET', marks, ARGV[i], ARGV[i + 1])
  end
end
"""
_WRITE: Final = f"""{_BOUNDS}{_LOSE}
local results = 5 + 3 * tonumber(ARGV[4])
for i = 5, results - 1, 3 do
  local known = redis.call('HGET', marks, ARGV[i])
  if not known or tonumber(known) < tonumber(ARGV[i + 1]) then return {MARKS_LOST} end
end
local last = redis.call('ZREVRANGE', recent, 0, 0, 'WITHSCORES')
local turn = tonumber(last[2] or '0')
for i = results, #ARGV, 4 do
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
for i = 5, results - 1, 3 do
  if results <= #ARGV then redis.call('HSET', marks, 'filled', 1) end
  if tonumber(ARGV[i + 2]) > tonumber(redis.call('HGET', marks, ARGV[i])) then
    redis.call('HSET', marks, ARGV[i], ARGV[i + 2])
  end
end
{_FORGET}
return excess
"""
"""A script that writes results, then marks.

It stores each revision after the result, so it can be repeated if it fails.
"""

log = logging.getLogger("inorder.sink")


@dataclass(frozen=True, slots=True)
class RedisBounds:
    """The bounds of stored results and of the feed; results in the feed are stored twice."""

    max_results: int = 1_000_000
    max_feed: int = 100_000

    def __post_init__(self) -> None:
        if self.max_results < 1 or self.max_feed < 1:
            raise ValueError(f"{self!r}: both bounds must be 1 or more")


class RedisKeys(NamedTuple):
    """The keys of the stored results, which readers use too."""

    latest: str
    feed: str
    revisions: str
    recent: str
    marks: str


def keys_of(name: str) -> RedisKeys:
    """Return the keys for a name; raise ValueError if it is empty or contains braces.

    Braces in the name could put the keys into different slots of a cluster.
    """
    if not name or "{" in name or "}" in name:
        raise ValueError(
            f"{name!r} is not a name for results; write a name that is not empty and has no braces"
        )
    prefix = f"inorder:{{{name}}}:"
    return RedisKeys(*(prefix + each for each in RedisKeys._fields))


class RedisSink:
    """A sink (`sinks.sink`) that writes into Redis.

    `client` must not retry by itself; `connect` creates such a client.
    """

    def __init__(self, client: redis.Redis, name: str, bounds: RedisBounds | None = None) -> None:
        self._given = client
        self._client = client
        """The given client, or a client of the node that a cluster has named for these keys."""
        self._name = name
        self._keys = keys_of(name)
        self._bounds = bounds or RedisBounds()
        backoff = ExponentialBackoff(cap=60.0, base=attempts.BACKOFF_S / 2)
        self._retry = Retry(backoff, attempts.ATTEMPTS - 1, PASSING)
        self._closed = False
        self._knows_policy = False

    def write(
        self, results: Sequence[Result], progress: Progress | None = None
    ) -> Sequence[Refused]:
        fitting = [each for each in results if len(each.record) <= BYTES_PER_CALL]
        calls = [*split_results(select_newest(fitting), RESULTS_PER_CALL, BYTES_PER_CALL)]
        if progress is not None and progress.steps:
            calls = calls or [()]
        with self._convert_errors():
            for piece in calls[:-1]:
                self._write(piece, progress and progress.without_moves())
            for piece in calls[-1:]:
                self._write(piece, progress)
        return [Refused(each, TOO_LARGE) for each in results if len(each.record) > BYTES_PER_CALL]

    def marks(self, reader: Reader) -> Marks:
        with self._convert_errors():
            found = self._run(_LOOK, ())
            self._warn_of_eviction()
        fields = dict(zip(found[::2], found[1::2], strict=True))
        positions = {}
        for field, value in fields.items():
            topic, slash, rest = field.decode().partition("/")
            partition, _, group = rest.partition("/")
            if slash and (group, topic) == (reader.group, reader.topic):
                positions[int(partition)] = int(value)
        return Marks(f"results {self._name} in Redis", positions, fields[OLDER] == b"1")

    def mark(self, reader: Reader, positions: Mapping[int, int]) -> None:
        with self._convert_errors():
            arguments = [(_field(reader, each), at) for each, at in positions.items()]
            self._run(_RAISE, [word for pair in arguments for word in pair])

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._client.close()
            self._given.close()

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        if self._closed:
            raise SinkError(f"the sink of {self._name} is closed")
        try:
            yield
        except redis.RedisError as error:
            raise self._failure(error) from error

    def _warn_of_eviction(self) -> None:
        """Warn once if the server may evict keys; nothing is said if it does not tell."""
        if self._knows_policy:
            return
        execute: Callable[..., Any] = self._client.info
        try:
            memory = execute("memory")
        # The sink works without the right to this command.
        except redis.RedisError:
            return
        self._knows_policy = True
        policy = memory.get("maxmemory_policy", NO_EVICTION)
        if memory.get("maxmemory") and policy != NO_EVICTION:
            log.warning(
                "results %s in Redis: the server may evict keys (maxmemory-policy %s), and results"
                " would be lost unnoticed; set it to %s",
                *(self._name, policy, NO_EVICTION),
            )

    def _write(self, piece: Sequence[Result], progress: Progress | None) -> None:
        steps = progress.steps if progress else {}
        arguments: list[Any] = [len(steps)]
        for partition, step in steps.items():
            assert progress is not None
            arguments += (_field(progress.reader, partition), *step)
        for result in piece:
            arguments += (result.id.encode(), result.revision, result.op, result.record)
        try:
            answer = self._run(_WRITE, arguments)
        except redis.OutOfMemoryError:
            self._trim()
            answer = self._run(_WRITE, arguments)
        if answer == MARKS_LOST:
            raise BegunAnew(
                f"results {self._name} in Redis: the marks in {self._keys.marks} are absent or"
                " behind"
            )

    def _trim(self) -> None:
        """Trim to the bounds in at most `MAX_TRIMS` calls, and leave the rest to the next write."""
        for _ in range(MAX_TRIMS):
            if not self._run(_TRIM, ()):
                return

    def _run(self, script: str, arguments: Sequence[Any]) -> Any:
        bounds = (self._bounds.max_results, self._bounds.max_feed, _FORGET_PER_CALL)
        command = ("EVAL", script, len(self._keys), *self._keys, *bounds, *arguments)

        def execute_once() -> Any:
            execute: Callable[..., Any] = self._client.execute_command
            try:
                return execute(*command)
            # Some of these errors would otherwise count as lost connections.
            except NOT_ALLOWED as error:
                raise self._failure(error) from error

        return self._retry.call_with_retry(execute_once, self._switch_node)

    def _switch_node(self, error: Exception) -> None:
        """Use the node that a cluster's error names for the next attempt, else the given client."""
        self._client.close()
        self._client = _client_of_moved(self._given, error) or self._given

    def _failure(self, error: redis.RedisError) -> SinkError:
        what = f"results {self._name}: Redis"
        if isinstance(error, NOT_ALLOWED) or "The user executing the script" in str(error):
            return SinkUnusable(
                f"{what} denies access: {error}; give the right user and password in the URL,"
                " and allow that user EVAL and the commands of hashes, streams and sorted sets on"
                f" {self._keys.latest[:-6]}*"
            )
        if "WRONGTYPE" in str(error):
            return SinkUnusable(
                f"results {self._name}: a key of Redis below {self._keys.latest[:-6]} holds"
                " something else; delete it, or choose another name"
            )
        return SinkUnavailable(f"{what} {_message(error)}")


def _field(reader: Reader, partition: int) -> bytes:
    """Return the field of a mark; only the group may have a slash."""
    return f"{reader.topic}/{partition}/{reader.group}".encode()


def _client_of_moved(given: redis.Redis, error: Exception) -> redis.Redis | None:
    """Return a client of the node that a MOVED names; None for any other error."""
    pool = given.connection_pool if isinstance(error, MovedError) else None
    if pool is None or "path" in pool.connection_kwargs:
        return None
    assert isinstance(error, MovedError)
    # An empty host means the server that answered.
    host = error.host or pool.connection_kwargs.get("host")
    settings = {**pool.connection_kwargs, "host": host, "port": error.port}
    return redis.Redis.from_pool(type(pool)(pool.connection_class, **settings))


def _message(error: redis.RedisError) -> str:
    """Return the fault and its remedy, as the end of a sentence about Redis."""
    tries = f"after {attempts.ATTEMPTS} attempt(s)"
    match error:
        case redis.OutOfMemoryError():
            return (
                "is full (maxmemory), and nothing exceeds the bounds; give it more memory, or"
                " lower --max-results or --max-feed"
            )
        case redis.ReadOnlyError():
            return (
                f"is a replica, read-only, {tries}; the address must lead to the master, after a"
                " failover too"
            )
        case AskError() | ClusterError() | TryAgainError():
            return (
                f"is a cluster that does not serve the keys' slot {tries}: {error}; check that all"
                " its slots are served, and that each node can be reached at the name it announces"
            )
        case redis.ConnectionError() | redis.TimeoutError():
            return (
                f"failed {tries}: {error}; check that the server runs, and that the address is"
                " right"
            )
    return f"refuses the command: {error}; check the server's settings and its state"


def connect(url: str) -> redis.Redis:
    """Return a client with timeouts and without retries; nothing is sent yet.

    Raises ValueError for an invalid URL.
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
    """Return the server and the database, without secrets."""
    given = client.connection_pool.connection_kwargs
    server = given.get("path") or f"{given.get('host')}:{given.get('port', 6379)}"
    return f"{server}/{given.get('db') or 0}"
