"""Examples: how often the transport polls, depending on records and on pending work."""

from __future__ import annotations

from types import SimpleNamespace

from agents.kafka.pace import ALWAYS, BRISK, QUIET, SILENT, Pacing
from agents.watch.watchdog import Patience


def fetch_settings(fetcher: SimpleNamespace) -> tuple[int, int]:
    return fetcher._fetch_max_wait_ms, fetcher._fetch_min_bytes


def test_pace_is_quiet_at_rest() -> None:
    fetcher = SimpleNamespace()
    pacing = Pacing(fetcher, is_fixed=False, wants_ticks=True)
    assert fetch_settings(fetcher) == (BRISK.fetch_wait_ms, BRISK.fetch_min_bytes)
    assert pacing.choose_pace(rests=False) == BRISK
    assert pacing.choose_pace(rests=True) == QUIET
    assert fetch_settings(fetcher) == (QUIET.fetch_wait_ms, 1), (
        "the broker keeps no first record back"
    )
    pacing.quicken()
    assert fetch_settings(fetcher) == (BRISK.fetch_wait_ms, BRISK.fetch_min_bytes)
    assert pacing.choose_pace(rests=True) == BRISK  # The handler may not have seen the record yet.
    assert pacing.choose_pace(rests=True) == QUIET


def test_fetch_is_longer_without_ticks() -> None:
    fetcher = SimpleNamespace()
    pacing = Pacing(fetcher, is_fixed=False, wants_ticks=False)
    assert pacing.choose_pace(rests=True) == SILENT
    assert fetch_settings(fetcher) == (SILENT.fetch_wait_ms, 1)
    assert 2 * SILENT.poll_s < Patience().silent_after_ns / 1e9
    assert fetcher._fetcher_timeout == SILENT.look_s
    pacing.quicken()
    assert pacing.choose_pace(rests=True) == BRISK
    assert fetcher._fetcher_timeout == BRISK.look_s


def test_embedded_pace_is_fixed() -> None:
    fetcher = SimpleNamespace()
    pacing = Pacing(fetcher, is_fixed=True, wants_ticks=True)
    assert pacing.choose_pace(rests=True) == pacing.choose_pace(rests=False) == ALWAYS
    assert fetch_settings(fetcher) == (ALWAYS.fetch_wait_ms, 1)
