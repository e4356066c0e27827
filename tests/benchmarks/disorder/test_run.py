"""Examples and an oracle: workloads have their stated faults; inorder and a long wait are right.

Entries that look ahead are refused.
"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.disorder import run, worlds
from benchmarks.disorder.run import ENTRIES, Entry, EntryFailed, Measured, count_code_lines, measure
from tests.kit.programs import printed

SECONDS = 12.0
QUERIES = list(worlds.QUERIES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("worlds")
    worlds.write(place, SECONDS, seed=2)
    return place


def _measured(name: str, folder: Path, world: str, query: str) -> Measured:
    entry = next(entry for entry in ENTRIES if entry.name == name)
    return measure(entry, folder, world, query, {"python": sys.executable})


def test_rough_world_has_its_faults() -> None:
    base = worlds.make(60, seed=1)
    assert len({record.time_us for record in base}) == len(base) == 60 * worlds.RATE
    calm, rough = (worlds.deliver(base, world, seed=1) for world in ("calm", "rough"))
    assert sorted(record.made for record in calm) == sorted(base)
    times = Counter(record.made for record in rough)
    assert 0.005 < sum(count == 2 for count in times.values()) / len(base) < 0.015
    assert 0 < len(base) - len(times) < 0.003 * len(base)
    assert max(record.arrival_us - record.made.time_us for record in calm) < 500_000
    silent = [
        r
        for r in rough
        if r.made.source == "s0" and 3.0e6 < r.made.time_us - base[0].time_us < 4.4e6
    ]
    assert min(record.arrival_us for record in silent) >= worlds.START_US + 4_500_000


def test_equal_seeds_give_equal_worlds(folder: Path, tmp_path: Path) -> None:
    worlds.write(tmp_path, SECONDS, seed=2)
    for path in folder.glob("*/truth-*.csv"):
        assert path.read_bytes() == (tmp_path / path.relative_to(folder)).read_bytes()


def test_recording_keeps_order(tmp_path: Path) -> None:
    """Two sources with one instant are separated; a record that arrives twice stays one record."""
    recording = tmp_path / "arrivals.csv"
    rows = ["50,b,7,20", "60,a,0,20", "70,b,6,10", "80,b,7,20"]
    recording.write_text("\n".join(["arrival_us,source,seq,time_us", *rows]) + "\n")
    laid = worlds.overlay_recording(worlds.read_arrivals(recording), seed=1)
    assert [(one.arrival_us, one.made.source, one.made.seq, one.made.time_us) for one in laid] == [
        (50, "s1", 7, 21),
        (60, "s0", 0, 20),
        (70, "s1", 6, 11),
        (80, "s1", 7, 21),
    ]
    assert laid[0].made == laid[3].made
    assert laid[2].made.type == "person"


def test_python_entries_share_a_reader() -> None:
    """With different readers, half of the measured time would be the reader's."""
    paths = [*(run.HERE / "entries").glob("*.py")]
    texts = {path.name: path.read_text() for path in paths if path.name != "__init__.py"}
    assert len(texts) == 5
    assert [name for name, text in texts.items() if "csv.reader(file)" not in text] == []


@pytest.mark.in_turns(5)
@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("world", ["calm", "rough"])
def test_oracle_ours_and_long_wait_are_right(query: str, world: str, folder: Path) -> None:
    """Our first results come sooner than with the long wait."""
    ours = _measured(run.OURS, folder, world, query).score
    long = _measured("bounded, 2 s", folder, world, query).score
    assert (ours.wrong_end, long.wrong_end) == (0, 0)
    assert ours.expected == long.expected >= 12
    assert (ours.first_mean_ms or 0) < (long.first_mean_ms or 0)


@pytest.mark.slow
@pytest.mark.parametrize("query", ["q5", "q11"])
def test_unordered_entry_is_wrong(query: str, folder: Path) -> None:
    hasty = _measured("no order", folder, "rough", query).score
    corrected = _measured("bounded, 50 ms, late 10 s", folder, "rough", query).score
    assert hasty.wrong_end > corrected.wrong_end == 0
    assert corrected.wrong_first > 0


@pytest.mark.slow
def test_wrong_clock_spoils_watermarks(folder: Path) -> None:
    ours = _measured(run.OURS, folder, "clock", "q5").score
    bounded = _measured("bounded, 2 s", folder, "clock", "q5").score
    assert ours.wrong_end < 0.1 * ours.expected
    assert bounded.wrong_end > 0.9 * bounded.expected


LOOKS_AHEAD = """
import sys
rows = open(sys.argv[1]).read().splitlines()[1:]
print(rows[0].partition(",")[0], 1, "", len(rows), sep=",")
"""


def test_looking_ahead_is_refused(folder: Path, tmp_path: Path) -> None:
    program = tmp_path / "ahead.py"
    program.write_text(LOOKS_AHEAD)
    entry = Entry("ahead", ("{python}", str(program)), str(program))
    with pytest.raises(EntryFailed, match="depend on later records"):
        measure(entry, folder, "calm", "q7", {"python": sys.executable})


def test_failing_entry_is_named(folder: Path) -> None:
    entry = Entry("broken", ("{python}", "-c", "raise SystemExit('no disk')"), "run.py")
    with pytest.raises(EntryFailed, match=r"exit code 1\nno disk"):
        measure(entry, folder, "calm", "q7", {"python": sys.executable})


def test_comments_do_not_count(tmp_path: Path) -> None:
    code = tmp_path / "code.py"
    code.write_text('"""Words.\n\nMore."""\n\n# words\na = 1\n"""Words."""\nb = 2  # two\n')
    assert count_code_lines(code) == 2


def test_folder_runs_by_itself(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(run.HERE, tmp_path / "disorder")
    options = ["--entry", "no order", "--world", "calm", "--query", "q7"]
    told = printed("-m", "disorder.run", folder, *options, cwd=tmp_path)
    assert '"entry": "no order"' in told
