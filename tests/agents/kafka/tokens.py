"""Tokens for tests: unsigned JWTs, which a broker accepts if configured to do so."""

from __future__ import annotations

import base64
import time

import orjson


def token(subject: str, lasts_s: float) -> str:
    now_s = time.time()
    claims = {"sub": subject, "iat": now_s - 60, "exp": now_s + lasts_s}
    return f"{_part({'alg': 'none'})}.{_part(claims)}."


def _part(content: object) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(content)).rstrip(b"=").decode()
