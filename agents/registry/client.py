"""Reads schemas from a registry by its REST interface, as Confluent documents it.

    GET /schemas/ids/{id}?format=serialized     a schema; for Protobuf, in base64
    GET /schemas/ids/{id}/versions              the subjects that have it
    GET /subjects/{s}/versions/{v}?format=…     a schema to which another refers

Name and password come from INORDER_REGISTRY_USER and INORDER_REGISTRY_PASSWORD. Bounds: an answer
must be complete within `ANSWER_S` and has at most `MAX_BYTES`. A schema refers to at most
`MAX_REFERRED` others, and all answers together may take `ANSWERS_S`. Redirects are not followed,
because their target would receive the password.
"""

from __future__ import annotations

import asyncio
import os
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import aiohttp
import orjson

from agents.answers import read_at_most

USER: Final = "INORDER_REGISTRY_USER"
PASSWORD: Final = "INORDER_REGISTRY_PASSWORD"
ANSWER_S: Final = 5.0
ANSWERS_S: Final = 20.0
MAX_BYTES: Final = 4 << 20
MAX_REFERRED: Final = 100
UNKNOWN: Final = frozenset(
    {HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY}
)
"""Statuses with which registries answer for an unknown or invalid id."""


class RegistryAway(Exception):
    """The registry gave no valid answer; a later request may succeed."""


class RegistryRefuses(Exception):
    """The registry denies access, so retrying does not help."""


class NoSuchSchema(Exception):
    """The registry does not know this id, or refuses it as invalid."""


class ExcessiveSchema(Exception):
    """The schema exceeds a limit, so retrying does not help."""


class FoundSchema(NamedTuple):
    """A schema of the registry.

    `kind` is AVRO, PROTOBUF or JSON. `referred` has the schemas to which it refers, directly or
    indirectly, each after those to which it refers itself. `subjects` are the subjects that have
    the schema.
    """

    kind: str
    schema: str
    referred: list[str]
    subjects: frozenset[str]


async def schema_of(registry: str, number: int) -> FoundSchema:
    """Return the schema with this id; each call opens a connection, because look-ups are rare.

    Raises NoSuchSchema, ExcessiveSchema, RegistryAway, RegistryRefuses.
    """
    headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
    if user := os.environ.get(USER):
        given = aiohttp.encode_basic_auth(user, os.environ.get(PASSWORD, ""))
        headers["Authorization"] = given
    limit = aiohttp.ClientTimeout(ANSWER_S)
    try:
        async with (
            asyncio.timeout(ANSWERS_S),
            aiohttp.ClientSession(timeout=limit, headers=headers) as session,
        ):
            return await _Asking(registry, session).schema(number)
    except TimeoutError:
        raise RegistryAway(f"{registry} did not answer within {ANSWERS_S:.0f} s") from None


class _Asking:
    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self._session = session

    async def schema(self, number: int) -> FoundSchema:
        found = await self._get(f"/schemas/ids/{number}?format=serialized")
        versions = await self._get(f"/schemas/ids/{number}/versions")
        referred: dict[tuple[str, int], str] = {}
        try:
            await self._fetch_references(found, referred, 0)
            subjects = frozenset(str(each["subject"]) for each in versions)
            kind = found.get("schemaType") or "AVRO"
            return FoundSchema(str(kind), str(found["schema"]), [*referred.values()], subjects)
        except (KeyError, TypeError, ValueError, AttributeError) as wrong:
            raise RegistryAway(
                f"{self.url} did not answer like a schema registry ({wrong})"
            ) from None

    async def _fetch_references(
        self, found: Any, referred: dict[tuple[str, int], str], depth: int
    ) -> None:
        for each in found.get("references") or ():
            subject, version = str(each["subject"]), int(each["version"])
            if (subject, version) in referred:
                continue
            if len(referred) + depth >= MAX_REFERRED:
                raise ExcessiveSchema(
                    f"refers to over {MAX_REFERRED} other schemas; it is not read"
                )
            place = f"/subjects/{quote(subject, safe='')}/versions/{version}?format=serialized"
            other = await self._get(place)
            await self._fetch_references(other, referred, depth + 1)
            referred[subject, version] = str(other["schema"])

    async def _get(self, place: str) -> Any:
        try:
            async with self._session.get(self.url + place, allow_redirects=False) as answer:
                content, status = await read_at_most(answer.content, MAX_BYTES), answer.status
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise RegistryAway(
                f"{self.url} did not answer ({str(error) or type(error).__name__})"
            ) from None
        if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            raise RegistryRefuses(
                f"{self.url} answers {status}; set {USER} and {PASSWORD}, of a user who may"
                f" read schemas"
            )
        if status in UNKNOWN:
            raise NoSuchSchema(place)
        if status != HTTPStatus.OK:
            raise RegistryAway(f"{self.url} answers {status}")
        if len(content) > MAX_BYTES:
            raise ExcessiveSchema(f"has more than {MAX_BYTES} bytes; it is not read")
        try:
            return orjson.loads(content)
        except orjson.JSONDecodeError:
            raise RegistryAway(
                f"{self.url} did not answer with JSON; is it a schema registry?"
            ) from None
