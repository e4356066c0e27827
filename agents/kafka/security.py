"""Reads the settings with which clients and brokers authenticate each other: TLS and SASL.

One small set of settings, with the names that Kafka's clients use, applies to all clients of a
process, whichever library they come from:

    security.protocol                     PLAINTEXT (default), SSL, SASL_PLAINTEXT, SASL_SSL
    sasl.mechanism                        PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER
    sasl.username, sasl.password          for the other mechanisms; OAUTHBEARER has these:
    sasl.oauthbearer.token.endpoint.url   https://… or file:///…, a file that another program renews
    sasl.oauthbearer.client.id, sasl.oauthbearer.client.secret, sasl.oauthbearer.scope
                                          for https, whose certificate ssl.ca.location verifies too
    ssl.ca.location                       PEM; the machine's own authorities by default
    ssl.certificate.location, ssl.key.location, ssl.key.password
                                          PEM, if brokers require a client certificate
    ssl.endpoint.identification.algorithm https (default), none

They come from a file of `name=value` lines and from the environment (`INORDER_SASL_USERNAME` for
`sasl.username`), which overrides the file for each name. So public settings can be in a readable
file, and the secret can come from elsewhere. A secret may also be given by the name of a file, as
`sasl.password.file`. Settings never come from the command line, which others on the machine can
read, and no secret is ever shown.

All settings are checked at the start: missing files, a certificate that does not match its key, and
unknown names. PEM files are read again for the first connection after they changed.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import unquote, urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)

from agents.kafka.bearer import Bearer, TokenEndpoint, TokenFile, TokenUnavailable
from agents.kafka.renewed_context import RenewedContext

PREFIX: Final = "INORDER_"
FILE: Final = ".file"
"""Suffix of a setting whose value is the path of a file with the secret."""


class SecurityRefused(Exception):
    """The settings are invalid; the message names them and says what to write."""


def _check_file(path: Path) -> Path:
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    return path


PemFile = Annotated[Path, AfterValidator(_check_file)]


class Security(BaseModel):
    """The security settings of all clients, checked when they are read."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT", alias="security.protocol"
    )
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None = Field(
        default=None, alias="sasl.mechanism"
    )
    username: str | None = Field(default=None, alias="sasl.username")
    password: SecretStr | None = Field(default=None, alias="sasl.password")
    token_url: str | None = Field(default=None, alias="sasl.oauthbearer.token.endpoint.url")
    client_id: str | None = Field(default=None, alias="sasl.oauthbearer.client.id")
    client_secret: SecretStr | None = Field(default=None, alias="sasl.oauthbearer.client.secret")
    scope: str | None = Field(default=None, alias="sasl.oauthbearer.scope")
    ca_file: PemFile | None = Field(default=None, alias="ssl.ca.location")
    certificate_file: PemFile | None = Field(default=None, alias="ssl.certificate.location")
    key_file: PemFile | None = Field(default=None, alias="ssl.key.location")
    key_password: SecretStr | None = Field(default=None, alias="ssl.key.password")
    identification: Literal["https", "none"] = Field(
        default="https", alias="ssl.endpoint.identification.algorithm"
    )

    @property
    def encrypts(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def authenticates(self) -> bool:
        return self.protocol.startswith("SASL")

    def to_aiokafka(self) -> dict[str, Any]:
        """Return the arguments for aiokafka's clients."""
        settings: dict[str, Any] = {"security_protocol": self.protocol}
        if self.encrypts:
            settings["ssl_context"] = self.ssl_context
        if self.authenticates:
            settings["sasl_mechanism"] = self.mechanism
        if self.bearer is not None:
            settings["sasl_oauth_token_provider"] = self.bearer
        elif self.authenticates:
            settings["sasl_plain_username"] = self.username
            settings["sasl_plain_password"] = _reveal(self.password)
        return settings

    def to_librdkafka(self) -> dict[str, Any]:
        """Return the settings for confluent-kafka's clients, under the same names."""
        unused = {"token_url", "client_id", "client_secret", "scope"}
        if not self.encrypts:
            unused |= {"ca_file", "key_password", "identification"}
        named = self.model_dump(by_alias=True, exclude_none=True, exclude=unused)
        settings: dict[str, Any] = {name: _reveal(value) for name, value in named.items()}
        if self.bearer is not None:
            settings["oauth_cb"] = self.bearer.refresh
        return settings

    @cached_property
    def bearer(self) -> Bearer | None:
        """Source of the tokens of OAUTHBEARER, one for all clients."""
        if self.mechanism != OAUTHBEARER or self.token_url is None:
            return None
        if self.token_url.startswith(FILE_URL):
            return TokenFile(Path(unquote(urlsplit(self.token_url).path)))
        files = [] if self.ca_file is None else [self.ca_file]
        context = RenewedContext(lambda: ssl.create_default_context(cafile=self.ca_file), files)
        secret = _reveal(self.client_secret)
        return TokenEndpoint(self.token_url, str(self.client_id), secret, self.scope or "", context)

    @cached_property
    def ssl_context(self) -> ssl.SSLContext:
        """TLS context for all clients, which reads changed files again; OSError if unreadable."""
        return RenewedContext(self._make_context, self.pem_files)

    @property
    def pem_files(self) -> tuple[Path, ...]:
        """The files of all TLS connections to brokers."""
        return tuple(filter(None, (self.ca_file, self.certificate_file, self.key_file)))

    def _make_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca_file)
        context.check_hostname = self.identification == "https"
        if self.certificate_file is not None:
            # Without a password, OpenSSL would ask for one at the terminal if the key is encrypted.
            secret = _reveal(self.key_password)
            context.load_cert_chain(self.certificate_file, self.key_file, password=secret)
        return context

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        oauth = (self.token_url, self.client_id, self.client_secret, self.scope)
        if self.authenticates:
            self._require("sasl.mechanism", self.mechanism, "write PLAIN or SCRAM-SHA-512")
            if self.mechanism == OAUTHBEARER:
                self._check_tokens()
            elif any(oauth):
                raise ValueError(
                    f"sasl.oauthbearer.… is set, and {self.mechanism} does not use it;"
                    " write sasl.mechanism OAUTHBEARER"
                )
            else:
                self._require("sasl.username", self.username, "write it")
                self._require("sasl.password", self.password, "write it, or sasl.password.file")
        elif self.mechanism or self.username or self.password or any(oauth):
            raise ValueError(f"sasl.… is set, and {self.protocol} does not use it; {_BUT_SASL}")
        # In this case, ssl.ca.location verifies the endpoint.
        asks_endpoint = (self.token_url or "").startswith("https:")
        files = (None if asks_endpoint else self.ca_file, self.certificate_file, self.key_file)
        if any(files) and not self.encrypts:
            raise ValueError(f"ssl.… is set, and {self.protocol} does not use it; {_BUT_SSL}")
        if (self.certificate_file is None) != (self.key_file is None):
            raise ValueError("ssl.certificate.location and ssl.key.location go together")
        if self.encrypts:
            try:
                _ = self.ssl_context
            except OSError as error:  # The errors of ssl are OSErrors.
                raise ValueError(f"the PEM files cannot be used: {error}") from error
        return self

    def _check_tokens(self) -> None:
        """Refuse missing settings of OAUTHBEARER, and settings that it does not use."""
        if self.username or self.password:
            raise ValueError("OAUTHBEARER uses no sasl.username and sasl.password; leave them out")
        url = "sasl.oauthbearer.token.endpoint.url"
        self._require(url, self.token_url, "write https://… or file:///path/of/a/token")
        place = urlsplit(self.token_url or "")
        client = (self.client_id, self.client_secret)
        if place.scheme == "file":
            if not place.path.startswith("/") or place.netloc:
                raise ValueError(f"{url} is not the path of a file; write file:///path/of/a/token")
            if any((*client, self.scope)):
                raise ValueError(
                    "a token from a file needs no sasl.oauthbearer.client.… and scope; leave them"
                    " out"
                )
            try:
                TokenFile(Path(unquote(place.path))).current()
            except TokenUnavailable as error:
                raise ValueError(str(error)) from error
        elif place.scheme == "https" or (place.scheme == "http" and place.hostname in OWN_HOSTS):
            self._require("sasl.oauthbearer.client.id", self.client_id, "write it")
            name = "sasl.oauthbearer.client.secret"
            self._require(name, self.client_secret, f"write it, or {name}.file")
        else:
            raise ValueError(
                f"{url} would send a secret unencrypted, or is not a URL; write https://… or"
                " file:///path/of/a/token"
            )

    def _require(self, name: str, value: Any, remedy: str) -> None:
        if not value:
            raise ValueError(f"{self.protocol} needs {name}; {remedy}")


_BUT_SASL: Final = "write security.protocol SASL_SSL (or SASL_PLAINTEXT)"
_BUT_SSL: Final = "write security.protocol SSL (or SASL_SSL)"

PLAINTEXT: Final = Security()
"""Settings without encryption and authentication."""

OAUTHBEARER: Final = "OAUTHBEARER"
FILE_URL: Final = "file:"
OWN_HOSTS: Final = frozenset({"127.0.0.1", "localhost", "::1"})
"""Hosts to which a secret may be sent without encryption."""

NAMES: Final = tuple(str(field.alias) for field in Security.model_fields.values())
SECRETS: Final = ("sasl.password", "sasl.oauthbearer.client.secret", "ssl.key.password")
SECRET_FILES: Final = tuple(secret + FILE for secret in SECRETS)
SPELLED: Final = {"sasl.mechanisms": "sasl.mechanism"}
"""librdkafka's spellings of settings that differ from ours, with our names for them."""


def _reveal(value: object) -> str:
    """Return the text of a secret or of another value; "" for None."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return "" if value is None else str(value)


def variable_of(name: str) -> str:
    """Return the name of a setting's environment variable."""
    return PREFIX + name.upper().replace(".", "_")


def read_security(text: str, environ: Mapping[str, str]) -> Security:
    """Read the settings from a file's text ("" without a file) and the environment.

    Raises SecurityRefused if the settings are invalid.
    """
    values = _parse_properties(text)
    for name in (*NAMES, *SECRET_FILES):
        if environ.get(variable_of(name)):
            other = name.removesuffix(FILE) if name.endswith(FILE) else name + FILE
            # A secret given by value replaces one given by file, and vice versa.
            values.pop(other, None)
            values[name] = environ[variable_of(name)]
    for secret in SECRETS:
        if secret + FILE in values:
            values[secret] = _read_content(secret + FILE, values.pop(secret + FILE))
    for name in ("security.protocol", "sasl.mechanism"):
        if name in values:
            values[name] = values[name].upper()
    try:
        return Security.model_validate(values)
    except ValidationError as refused:
        faults = refused.errors(include_url=False, include_input=False, include_context=False)
        raise SecurityRefused("\n".join(_format_fault(fault) for fault in faults)) from None


def without_security(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without security settings, for a process that uses its own broker."""
    ours = {"INORDER_KAFKA", *map(variable_of, (*NAMES, *SECRET_FILES))}
    return {name: value for name, value in environ.items() if name not in ours}


def _parse_properties(text: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.partition("=")
        name = SPELLED.get(name.strip(), name.strip())
        if not equals:  # The message does not repeat the line, which may contain a secret.
            raise SecurityRefused(f"line {number} is not a setting; write name=value")
        if name in values:
            raise SecurityRefused(f"line {number} sets {name} a second time; remove one of them")
        values[name] = value.strip()
    return values


def _read_content(name: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        raise SecurityRefused(f"{name}: {path}: {reason}") from error


def _format_fault(fault: Any) -> str:
    where = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        return f"{where}: is an unknown setting; write one of {', '.join(NAMES)}"
    what = fault["msg"].removeprefix("Value error, ")
    return f"{where} ({variable_of(where)}): {what}" if where else what
