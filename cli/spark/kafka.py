"""Converts TLS and SASL settings to the form of the Java client inside Spark's connector."""

from __future__ import annotations

from typing import Final

from agents.kafka.security import Security
from cli.topology_file import Refused

PKCS_8: Final = ("-----BEGIN PRIVATE KEY-----", "-----BEGIN ENCRYPTED PRIVATE KEY-----")
PREFIX: Final = "kafka."
LOGIN: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def java_settings(security: Security) -> dict[str, str]:
    """Return the options of the connector.

    PEM texts are passed by value, because the connector has no option for a key and a certificate
    in separate files. Raises `Refused` for a key that is not in PKCS 8. It refuses tokens too,
    which Java fetches in its own way.
    """
    if security.bearer is not None:
        raise Refused(
            "Spark is not given tokens of OAUTHBEARER; let it in by a certificate or SCRAM, at a"
            " listener of the brokers that takes these"
        )
    settings: dict[str, str] = {"security.protocol": security.protocol}
    if security.encrypts:
        named = security.identification
        settings["ssl.endpoint.identification.algorithm"] = "" if named == "none" else named
        if security.ca_file is not None:
            settings["ssl.truststore.type"] = "PEM"
            settings["ssl.truststore.certificates"] = security.ca_file.read_text()
        if security.certificate_file is not None and security.key_file is not None:
            settings["ssl.keystore.type"] = "PEM"
            settings["ssl.keystore.certificate.chain"] = security.certificate_file.read_text()
            key = security.key_file.read_text()
            if not any(begin in key for begin in PKCS_8):
                raise Refused(
                    f"{security.key_file}: Java reads private keys of PKCS 8 only; write"
                    " openssl pkcs8 -topk8 -in OLD -out NEW, and name the new one"
                )
            settings["ssl.keystore.key"] = key
        if security.key_password is not None:
            settings["ssl.key.password"] = security.key_password.get_secret_value()
    if security.authenticates:
        mechanism = str(security.mechanism)
        secret = security.password.get_secret_value() if security.password else ""
        settings["sasl.mechanism"] = mechanism
        settings["sasl.jaas.config"] = (
            f"{LOGIN[mechanism]} required username={_quoted(security.username or '')}"
            f" password={_quoted(secret)};"
        )
    return {PREFIX + name: value for name, value in settings.items()}


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
