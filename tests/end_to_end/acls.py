"""Grant, revoke and restore rights on brokers that deny everything by default."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from tests.waiting import wait_until

TIMEOUT_S: Final = 40.0
KINDS: Final = ("topic", "group", "transactional_id")
GUARDS: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",  # Clients of the plain listener, which only the test uses.
}
"""Settings of a broker that denies everything by default."""

ALL: Any = None
EVERY = AclBindingFilter(
    restype=ResourceType.ANY,
    name=ALL,
    resource_pattern_type=ResourcePatternType.ANY,
    principal=ALL,
    host=ALL,
    operation=AclOperation.ANY,
    permission_type=AclPermissionType.ANY,
)


def bindings(page: str) -> Iterator[AclBinding]:
    """Yield the rights that the kafka-acls.sh lines on the page grant."""
    known = argparse.ArgumentParser(exit_on_error=True)
    known.add_argument("--allow-principal", required=True)
    known.add_argument("--operation", action="append", required=True)
    known.add_argument("--resource-pattern-type", default="literal")
    for kind in KINDS:
        known.add_argument(f"--{kind.replace('_', '-')}")
    for line in re.findall(r"^kafka-acls\.sh (.+)$", page, re.M):
        said = known.parse_args(shlex.split(line))
        (kind,) = (kind for kind in KINDS if getattr(said, kind) is not None)
        for operation in said.operation:
            yield AclBinding(
                ResourceType[kind.upper()],
                getattr(said, kind),
                ResourcePatternType[said.resource_pattern_type.upper()],
                said.allow_principal,
                "*",
                AclOperation[operation.upper()],
                AclPermissionType.ALLOW,
            )


def allow(admin: AdminClient, said: Iterable[AclBinding]) -> None:
    """Grant these rights, and wait until the broker has them."""
    wanted = set(said)
    for answer in admin.create_acls([*wanted]).values():
        answer.result(TIMEOUT_S)
    wait_until(
        lambda: wanted <= set(admin.describe_acls(EVERY).result(TIMEOUT_S)),
        "the broker to have heard of the rights",
    )


class Right(NamedTuple):
    """A principal's right to one resource, written as in errors: Write on topic events.raw."""

    principal: str
    operation: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.operation} on {self.kind} {self.name}"

    def take(self, admin: AdminClient) -> None:
        """Deny the right, even if another rule allows it."""
        denied = AclBinding(*self._where, AclPermissionType.DENY)
        admin.create_acls([denied])[denied].result(TIMEOUT_S)

    def give_back(self, admin: AdminClient) -> None:
        denied = AclBindingFilter(*self._where, AclPermissionType.DENY)
        admin.delete_acls([denied])[denied].result(TIMEOUT_S)

    @property
    def _where(self) -> tuple[ResourceType, str, ResourcePatternType, str, str, AclOperation]:
        kind = ResourceType[self.kind.replace("-", "_").upper()]
        operation = AclOperation[self.operation.upper()]
        return kind, self.name, ResourcePatternType.LITERAL, self.principal, "*", operation


def right(said: str, principal: str) -> Right:
    """Return the right that an error names."""
    operation, kind, name = re.fullmatch(r"(\w+) on (\S+) (\S+)", said).groups()  # type: ignore[union-attr]
    return Right(principal, operation, kind, name)
