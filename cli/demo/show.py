"""`inorder demo` shows the main task of inorder on one machine, without Java or Docker.

It starts an embedded Kafka, a sync server and the real worker with its processes. Producers publish
a recording of three real sources with delays, gaps, duplicates and wrong clocks. The demo reads the
output and judges it. The exit code is 0 if every record is accounted for and the order is right.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Final

import click
import orjson
from rich.columns import Columns
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table

from cli.as_json import json_option
from cli.demo.clocks import WrongClock, describe, sync_clocks, wrong_clocks
from cli.demo.patience import Patience
from cli.demo.recording import record, retime
from cli.demo.stage import TOPOLOGY, DemoFailed, Ground, run_worker
from cli.demo.trouble import Injected, Posting, add_trouble
from cli.demo.watching import RAW, DisplayLine, Outcome, Verdict, Watcher, duplicates_in, judge
from cli.local.embedded import EmbeddedBroker
from cli.topology_file import failing
from inorder.failure import ProducerError
from producers.replayer import Replayer, ReplayPace

LOOK_S: Final = 0.1
REPORT_EVERY_S: Final = 5.0
ASK_S: Final = 0.5
LEAD_NS: Final = 3_000_000_000
"""The time from the last clock measurement to the first event, so that the measurement applies."""


@click.command("demo")
@click.option(
    "--speed", type=click.FloatRange(0.1, 200), default=4.0, help="Multiple of the recorded speed."
)
@click.option("--seed", type=int, default=1, help="Seed of the simulated faults.")
@click.option("--stay", is_flag=True, help="Keep the worker and its page running until Ctrl-C.")
@json_option("DEMO")
def command(speed: float, seed: int, stay: bool, as_json: bool) -> None:
    """Show the main job on an embedded Kafka, in less than a minute."""
    console = Console(stderr=as_json)
    console.print("starting an embedded Kafka and the worker …")
    with (
        failing(DemoFailed, ProducerError),
        tempfile.TemporaryDirectory(prefix="inorder-demo-") as folder,
        EmbeddedBroker() as broker,
        run_worker(broker.bootstrap, TOPOLOGY, Path(folder), report=console.print) as here,
    ):
        console.print(f"its page, until the demo ends: http://{here.worker}/")
        verdict = run(here, console, speed, seed)
        if stay:
            _keep_running(here, console)
    if as_json:
        click.echo(orjson.dumps(verdict.account))
    sys.exit(0 if verdict.is_sound else 1)


def run(here: Ground, console: Console, speed: float, seed: int) -> Verdict:
    clocks = wrong_clocks(time.time_ns())
    watcher = Watcher(here.brokers, clocks)
    try:
        with sync_clocks(here.brokers, clocks, console.print):
            events = retime(record(), time.time_ns() + LEAD_NS, speed)
            postings, injected = add_trouble(events, seed)
            publisher = Publisher(here.brokers, postings, clocks)
            publisher.start()
            with _show_progress(console, here, watcher.outcome, injected) as report:
                _read_until_settled(publisher, watcher, injected, report, console.print)
            publisher.join()
        duplicates = duplicates_in(here.metrics())
        held = here.count_held()
    finally:
        watcher.close()
    verdict = judge(injected, watcher.outcome, duplicates, held)
    console.print(_format_result(injected, watcher.outcome, verdict, describe(clocks)))
    return verdict


def _keep_running(here: Ground, console: Console) -> None:
    console.print(
        f"the worker runs on: http://{here.worker}/ shows it, Kafka is {here.brokers}. Ctrl-C ends"
    )
    with suppress(KeyboardInterrupt):
        while here.process.is_alive():
            time.sleep(LOOK_S)


class Publisher(threading.Thread):
    """A thread that publishes each posting at its time."""

    def __init__(
        self, brokers: str, postings: list[Posting], clocks: Mapping[str, WrongClock]
    ) -> None:
        super().__init__(name="publisher", daemon=True)
        self._brokers = brokers
        self._begin_ns = postings[0].send_ns
        self._rows = [
            {
                "source": event.source,
                "seq": event.seq,
                "ts": clocks[event.source].reads(event.ts_ns),
                "arrival": send_ns,
                "type": event.type,
                "payload": event.payload,
            }
            for send_ns, event in postings
        ]
        self.failure: ProducerError | None = None

    def run(self) -> None:
        # The replayer publishes the first row at once, and a timestamp from the future would make
        # the clock look wrong.
        time.sleep(max(0.0, (self._begin_ns - time.time_ns()) / 1e9))
        try:
            Replayer(self._brokers, RAW, pace=ReplayPace(speed=1.0)).publish(self._rows)
        except ProducerError as failure:
            self.failure = failure


# -- watching -----------------------------------------------------------------------------


def _is_settled(publisher: Publisher, watcher: Watcher, injected: Injected) -> bool:
    if publisher.is_alive():
        return False
    outcome = watcher.outcome
    all_out = outcome.out >= injected.sent - injected.lost and outcome.raw >= injected.postings
    return all_out or publisher.failure is not None


def _read_until_settled(
    publisher: Publisher,
    watcher: Watcher,
    injected: Injected,
    report: Callable[[], None],
    say: Callable[[str], None],
) -> None:
    """Read and show the output until all events have been emitted.

    Once all records are published, give up when there is no more progress.
    """
    patience = None
    while not _is_settled(publisher, watcher, injected):
        watcher.read_available(LOOK_S)
        report()
        if publisher.is_alive():
            continue
        patience = patience or Patience(say)
        outcome, wanted = watcher.outcome, injected.sent - injected.lost
        progress = (outcome.raw, outcome.out, outcome.gaps, outcome.dead)
        waited_for = f"{wanted - outcome.out:,} of {wanted:,} events to be emitted"
        if not patience.lasts(progress, waited_for):
            break
    while watcher.read_available(1.0):
        report()
    if publisher.failure is not None:
        raise publisher.failure


@contextmanager
def _show_progress(
    console: Console, here: Ground, outcome: Outcome, injected: Injected
) -> Iterator[Callable[[], None]]:
    """Yield a function that shows the progress.

    At a terminal the function updates a page in place; elsewhere it prints a line every
    `REPORT_EVERY_S`. It asks the worker for its buffered events at most every `ASK_S`.
    """
    reported_s = time.monotonic()
    live = Live(console=console, refresh_per_second=8) if console.is_terminal else None
    held = 0

    def report() -> None:
        nonlocal reported_s, held
        now_s = time.monotonic()
        is_due = now_s - reported_s >= (REPORT_EVERY_S if live is None else ASK_S)
        reported_s = now_s if is_due else reported_s
        if live is not None:
            if is_due:
                held = here.count_held()
            live.update(_format_page(outcome, injected, held))
        elif is_due:
            console.print(
                f"in {outcome.raw} ({outcome.raw_descents} out of order), out {outcome.out}"
                f" ({sum(outcome.late.values())} late), missing {outcome.missing}"
            )

    with live or nullcontext():
        yield report


# -- what is shown --------------------------------------------------------------------------


def _format_page(outcome: Outcome, injected: Injected, held: int) -> Group:
    bar = Table.grid()
    bar.add_row(ProgressBar(total=injected.postings, completed=outcome.raw, width=60))
    counts = (
        f"in {outcome.raw:,} · out of order {outcome.raw_descents:,}"
        f" · held {held}"
        f" · out {outcome.ordered:,} · late {sum(outcome.late.values())}"
        f" · missing {outcome.missing}"
    )
    panels = [
        Panel(_format_events(outcome.arrivals), title="as they arrive"),
        Panel(_format_events(outcome.departures), title="as they are emitted"),
    ]
    return Group(bar, counts, Columns(panels))


def _format_events(events: Iterable[DisplayLine]) -> Table:
    table = Table(box=None, padding=(0, 1))
    for name in ("source", "number", "time", "event"):
        table.add_column(name, no_wrap=True)
    newest_ns = 0
    for event in events:
        style = "red" if event.time_ns < newest_ns else ""
        newest_ns = max(newest_ns, event.time_ns)
        clock = f"{event.time_ns // 1_000_000 % 10_000_000:,}"
        table.add_row(event.source, str(event.seq), clock, event.type[:24], style=style)
    return table


def _format_result(injected: Injected, outcome: Outcome, verdict: Verdict, wrong: str) -> Group:
    account = Table(title="the account")
    for name in ("", "injected", "found"):
        account.add_column(name, justify="right" if name else "left")
    for what, wanted, found in verdict.rows:
        account.add_row(what, f"{wanted:,}", f"{found:,}")
    late = sum(outcome.late.values())
    duplicates = outcome.raw - outcome.out - outcome.dead
    disorder = (
        f"disorder: {injected.overtaken:,} events were overtaken in their own source,"
        f" {outcome.raw_descents:,} arrived after a later one of any source"
    )
    order = (
        f"order: {outcome.violations} violations in {outcome.ordered:,} events of events.ordered;"
        f" {late} marked late {dict(outcome.late) or ''}"
    )
    clocks = (
        f"clocks: {wrong}; corrected, the true time was within the stated error of"
        f" {outcome.out - outcome.outside:,} of {outcome.out:,} events"
        f" (median {outcome.usual_error_ns() / 1e6:.2f} ms)"
    )
    balance = (
        f"balance: {'holds' if verdict.balanced else 'DOES NOT HOLD'}"
        f" (in {outcome.raw:,} = ordered {outcome.ordered:,} + late {late}"
        f" + duplicates {duplicates} + dead {outcome.dead} + held 0)"
    )
    return Group(
        account, disorder, order, clocks, balance, *(f"! {note}" for note in verdict.notes)
    )
