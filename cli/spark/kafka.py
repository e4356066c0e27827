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
    in separate files. Raises `Refused` for a key that is not in PKCS 8. OAUTHBEARER tokens are
    refused too, because Java fetches them in its own way.
    """
    if security.bearer is not None:
        raise Refused(
            "Spark cannot use OAUTHBEARER tokens here; name a listener of the brokers that accepts"
            " a certificate or SCRAM"
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
                    f"{security.key_file}: Java reads private keys only in PKCS 8; run"
                    " openssl pkcs8 -topk8 -in OLD -out NEW, and name the new file"
                )
            settings["ssl.keystore.key"] = key
        if security.key_password is not None:
            settings["ssl.key.password"] = security.key_password.get_secret_value()
    if security.authenticates:
        mechanism = str(security.mechanism)
        secret = security.password.get_secret_value() if security.password else ""
        settings["sasl.mechanism"] = mechanism
        settings["sasl.jaas.config"] = (
            f"{LOGIN[mechanism]} required username={_quote(security.username or '')}"
            f" password={_quote(secret)};"
        )
    return {PREFIX + name: value for name, value in settings.items()}


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
