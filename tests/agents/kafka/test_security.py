"""Examples: TLS and SASL settings reach the clients, and wrong settings are refused.

tests/end_to_end/test_security.py shows that brokers accept such clients.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.kafka.brokers import Brokers
from agents.kafka.security import (
    NAMES,
    PLAINTEXT,
    Security,
    SecurityRefused,
    read_security,
    variable_of,
    without_security,
)

SECRET = "correct-horse"
OAUTH = "security.protocol=SASL_SSL\nsasl.mechanism=oauthbearer\n"
URL = "sasl.oauthbearer.token.endpoint.url"
CLIENT = "sasl.oauthbearer.client.id=id\n"
PLAIN = "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=a\nsasl.password=b\n"
SASL = "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nsasl.username=inorder\n"


def test_default_is_plaintext() -> None:
    assert read_security("", {}) == PLAINTEXT
    assert PLAINTEXT.to_librdkafka() == {"security.protocol": "PLAINTEXT"}
    assert Brokers("b:9092", is_embedded=False).client == {
        "bootstrap_servers": "b:9092",
        "security_protocol": "PLAINTEXT",
    }


@pytest.mark.parametrize("how", ["file", "variable", "named by the file", "named by a variable"])
def test_secret_reaches_clients_only(how: str, tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text(SECRET + "\n")
    text, environ = {
        "file": (f"sasl.password={SECRET}\n", {}),
        "variable": ("", {"INORDER_SASL_PASSWORD": SECRET}),
        "named by the file": (f"sasl.password.file={path}\n", {}),
        "named by a variable": ("", {"INORDER_SASL_PASSWORD_FILE": str(path)}),
    }[how]
    security = read_security(SASL + text, environ)
    assert security.to_librdkafka() == {
        "security.protocol": "SASL_SSL",
        "ssl.endpoint.identification.algorithm": "https",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "inorder",
        "sasl.password": SECRET,
    }
    settings = security.to_aiokafka()
    assert settings.pop("ssl_context") is security.ssl_context
    assert settings == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "inorder",
        "sasl_plain_password": SECRET,
    }
    assert SECRET not in f"{security!r} {security} {Brokers('b', False, security)!r}"  # noqa: FBT003


def test_environment_overrides_file(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("of the file")
    text = f"{SASL}sasl.password.file={path}\n"
    environ = {
        "INORDER_SASL_PASSWORD": SECRET,
        "INORDER_SASL_MECHANISM": "plain",
        "INORDER_SECURITY_PROTOCOL": "",  # as a chart writes an unset value
    }
    settings = read_security(text, environ).to_librdkafka()
    assert (settings["sasl.password"], settings["sasl.mechanism"]) == (SECRET, "PLAIN")
    assert settings["security.protocol"] == "SASL_SSL"


def test_comments_are_skipped() -> None:
    text = "# ours\n\n security.protocol = sasl_plaintext \nsasl.mechanisms=PLAIN\n"
    security = read_security(text + "sasl.username=a=b\nsasl.password= # \n", {})
    settings = security.to_librdkafka()
    assert settings["security.protocol"] == "SASL_PLAINTEXT"
    assert (settings["sasl.username"], settings["sasl.password"]) == ("a=b", "#")
    assert "ssl_context" not in security.to_aiokafka()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("security.protocol=SASL_TLS", "security.protocol (INORDER_SECURITY_PROTOCOL): Input"),
        (SASL, "SASL_SSL needs sasl.password; write it, or sasl.password.file"),
        (SASL + "sasl.password=", "SASL_SSL needs sasl.password"),
        (SASL.replace("SCRAM-SHA-512", "GSSAPI"), "'SCRAM-SHA-512' or 'OAUTHBEARER'"),
        ("security.protocol=SASL_SSL", "SASL_SSL needs sasl.mechanism; write PLAIN or SCRAM"),
        (f"sasl.password={SECRET}", "PLAINTEXT does not use it; write security.protocol SASL_SSL"),
        ("ssl.ca.location={here}", "PLAINTEXT does not use it; write security.protocol SSL"),
        ("security.protocol=SSL\nssl.ca.location=/absent.pem", "there is no file /absent.pem"),
        ("security.protocol=SSL\nssl.ca.location={here}", "the PEM files cannot be used"),
        ("security.protocol=SSL\nssl.key.location={here}", "ssl.key.location go together"),
        ("sasl.jaas.config=…", "sasl.jaas.config: is an unknown setting; write one of sec"),
        (SECRET, "line 1 is not a setting; write name=value"),
        ("sasl.mechanism=PLAIN\nsasl.mechanisms=PLAIN", "line 2 sets sasl.mechanism a second time"),
        ("sasl.password.file=/absent", "sasl.password.file: /absent: No such file"),
        (OAUTH, f"SASL_SSL needs {URL}; write https://… or file:///path"),
        (f"{OAUTH}{URL}=https://idp/token", "SASL_SSL needs sasl.oauthbearer.client.id"),
        (f"{OAUTH}{CLIENT}{URL}=https://idp/t", "needs sasl.oauthbearer.client.secret; write it"),
        (f"{OAUTH}{CLIENT}{URL}=http://idp/token", "would send a secret unencrypted"),
        (f"{OAUTH}{URL}=token", "or is not a URL; write https://"),
        (f"{OAUTH}{URL}=file://token", "is not the path of a file; write file:///path/of/a/token"),
        (f"{OAUTH}{CLIENT}{URL}=file:///t", "a token from a file needs no sasl.oauthbearer.client"),
        (f"{OAUTH}{URL}=file:///t\nsasl.username=a", "OAUTHBEARER uses no sasl.username"),
        (f"{PLAIN}{URL}=file:///t", "PLAIN does not use it; write sasl.mechanism OAUTH"),
        (f"{URL}=file:///t", "PLAINTEXT does not use"),
    ],
)  # fmt: skip
def test_invalid_setting_is_refused(text: str, told: str, tmp_path: Path) -> None:
    here = tmp_path / "not.pem"
    here.write_text("not a certificate")
    with pytest.raises(SecurityRefused) as refused:
        read_security(text.replace("{here}", str(here)), {})
    assert told in str(refused.value)
    assert SECRET not in str(refused.value)


def test_security_variables_are_removed() -> None:
    assert variable_of("ssl.endpoint.identification.algorithm") in {
        variable_of(name) for name in NAMES
    }
    environ = {variable_of(name): "x" for name in NAMES} | {"INORDER_KAFKA": "x", "PATH": "y"}
    assert without_security({**environ, "INORDER_SASL_PASSWORD_FILE": "x"}) == {"PATH": "y"}
    assert len(NAMES) == len(Security.model_fields)
