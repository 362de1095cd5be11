"""Prints a forecast for people."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sparktf.console.result_table import words_of
from sparktf.preview.forecast import DataForecast, Forecast, LocalityForecast, RoomForecast, RunForecast
from sparktf.runs.listing import roughly
from sparktf.told import count_in_words, told

_SHOWN_HOSTS = 4
_SHOWN_KEYS = 4


def print_forecast(console: Console, forecast: Forecast) -> None:
    """Prints a table of facts, the problems, and how the run would end or begin."""
    title = f"{forecast.name}{f' / {forecast.run.run_id}' if forecast.run.run_id else ''}"
    if forecast.date and forecast.date != forecast.run.run_id:
        title += f", of {forecast.date}"
    table = Table(title=title, title_justify="left", title_style="bold", show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for key, value in _facts(forecast):
        table.add_row(Text(key), Text(value))
    console.print(table)
    for text in forecast.warnings:
        console.print(Text(f"warning: {told(text)}", style="yellow"))
    for problem in forecast.problems:
        console.print(Text(f"{problem.type}: {told(problem.message)}", style="red"))
    if forecast.unknown:
        console.print(Text(f"not looked at: {'; '.join(forecast.unknown)}", style="dim"))
    console.print(Text(_ending(forecast), style="bold red" if forecast.exit_code else "bold green"))


def _ending(forecast: Forecast) -> str:
    if forecast.run.state == "done":
        return "the run is done: submitted again, it repeats its result (exit code 0)"
    if forecast.exit_code:
        return f"submitted now, the run would end with exit code {forecast.exit_code} ({words_of(forecast.exit_code)})"
    return "submitted now, the run would begin"


def _facts(forecast: Forecast) -> Iterator[tuple[str, str]]:
    yield "run", _run(forecast.run)
    yield from _data(forecast.data)
    yield from _checks(forecast)
    if forecast.updates is not None:
        yield "updates", _updates(forecast)
    if forecast.locality is not None:
        yield "locality", _locality(forecast.locality)
    if forecast.room is not None:
        yield "nodes", _nodes(forecast)
        yield "cluster", _cluster(forecast.room)
    yield from _times(forecast)
    yield from _models(forecast)


def _run(run: RunForecast) -> str:
    states = {
        "new": "new",
        "planned": "has begun, and goes on",
        "decided": f"has ended with exit code {run.verdict}, and goes on",
        "done": "done",
    }
    words = [states[run.state]]
    if run.step:
        words.append(f"from step {run.step:,}")
    owner = run.owner
    if owner is not None and owner.state in ("owned", "silent"):
        words.append(f"owned by {owner.application} of {owner.user} on {owner.host} since {owner.since}")
    elif owner is not None:
        words.append("owned by nobody")
    return ", ".join(words)


def _data(data: DataForecast) -> Iterator[tuple[str, str]]:
    if data.ready is not None:
        yield "ready", "yes" if data.ready else f"no: {data.missing}"
    for stream in data.streams:
        if stream.fed_by == "spark":
            yield stream.stream, "fed by Spark; rows are counted as they come"
            continue
        yield (
            stream.stream,
            f"{stream.rows:,} rows, {(stream.nbytes or 0) / 1e6:,.1f} MB; {count_in_words(stream.files or 0, 'file')}, "
            f"{count_in_words(stream.row_groups or 0, 'row group')}, "
            f"{count_in_words(stream.shuffle_blocks or 0, 'shuffle block')}",
        )
    if data.planned == "before":
        yield "plan", "stored with the run, which reads the same data again"


def _checks(forecast: Forecast) -> Iterator[tuple[str, str]]:
    checks = forecast.checks
    if checks is None:
        return
    version = "" if checks.baseline_version is None else f"version {checks.baseline_version}, "
    words = [f"against {version}run {checks.baseline}" if checks.baseline else "against no earlier run"]
    broken = sum(finding.level == "refuse" for finding in checks.findings)
    words.append(f"footers decide {len(checks.judged)} of {len(checks.judged) + len(checks.left)} bounds")
    if checks.findings:
        words.append(f"{broken} bounds of refuse and {len(checks.findings) - broken} of warn do not hold")
    if checks.left:
        words.append(f"{_named(checks.left, _SHOWN_KEYS)} need the rows")
    yield "checks", "; ".join(words)


def _updates(forecast: Forecast) -> str:
    updates = forecast.updates
    if updates is None:
        return ""
    about = ("" if updates.exact else "about ") + ("at most " if updates.may_end_before else "")
    limited = f" ({updates.limited_by})" if updates.limited_by else ""
    epochs = count_in_words(updates.epochs, "epoch")
    text = f"{about}{updates.total:,}{limited}: {updates.per_epoch:,} an epoch, {epochs}"
    left = forecast.run.rows_left
    return text if left is None else f"{text}; {left:,} rows to train"


def _locality(locality: LocalityForecast) -> str:
    if locality.share is None and not locality.asked:
        if locality.hosts_with_data:
            return (
                f"{locality.hosts_with_data:,} hosts hold blocks, but the cluster places executors without regard to "
                "them"
            )
        return "not known: the file system does not say where its blocks lie"
    words = [f"{locality.share:.0%} of the bytes on their reader's host"] if locality.share is not None else []
    words.append(f"{locality.hosts_with_data:,} hosts hold blocks")
    if locality.asked:
        hosts = [
            f"{host.host} ({'' if host.executors == 1 else f'{host.executors} executors, '}"
            f"{host.nbytes / 1e6:,.1f} MB{'' if host.fits is None or host.fits >= host.executors else ', no room now'})"
            for host in locality.asked
        ]
        words.append(f"asked for at {_named(hosts, _SHOWN_HOSTS)}")
    return "; ".join(words)


def _nodes(forecast: Forecast) -> str:
    room = forecast.room
    if room is None:
        return ""
    slots = "" if room.slots is None else f" of {room.slots} slots"
    driver = "" if room.driver_mib is None else f", the driver {room.driver_mib:,} MiB"
    fits = "" if room.fits is None else f"; memory for {room.fits} of them now"
    return f"{room.nodes}{slots} on {room.master}, {room.node_mib:,} MiB each{driver}{fits}"


def _cluster(room: RoomForecast) -> str:
    words = []
    if room.hosts is not None and room.hosts != 1:
        words.append(f"{room.hosts:,} hosts")
    if room.memory_mib is not None:
        words.append(f"{room.free_mib:,} of {room.memory_mib:,} MiB free")
    if room.vcores is not None:
        free = "" if room.free_vcores is None else f"{room.free_vcores:,} of "
        words.append(f"{free}{room.vcores:,} cores{' free' if free else ''}")
    return f"{', '.join(words)} ({room.said})" if words else room.said


def _times(forecast: Forecast) -> Iterator[tuple[str, str]]:
    former, times = forecast.former, forecast.times
    if former.runs:
        words = [f"runs {_named(former.runs, _SHOWN_KEYS)}"]
        if former.rows_s is not None:
            words.append(f"{former.rows_s:,.0f} rows/s")
        if former.seconds:
            words.append(", ".join(f"{phase} {roughly(s)}" for phase, s in former.seconds.items()))
        if former.evaluation_s is not None and former.checkpoint_s is not None:
            words.append(f"an evaluation {roughly(former.evaluation_s)}, a checkpoint {roughly(former.checkpoint_s)}")
        sizes = {"checkpoint": former.checkpoint_nbytes, "model": former.model_nbytes}
        words += [f"{what} {nbytes / 1e6:,.1f} MB" for what, nbytes in sizes.items() if nbytes is not None]
        yield "before", "; ".join(words)
    if times.duration_s is not None and times.ends is not None and times.train_s is not None:
        yield (
            "expected",
            f"{roughly(times.duration_s)}, of which training {roughly(times.train_s)}: until {_clock(times.ends)}",
        )
    else:
        yield "expected", "no earlier run says how long it takes"
    if times.limit and times.due is not None:
        yield "time", _limit(forecast)


def _limit(forecast: Forecast) -> str:
    times = forecast.times
    words = [
        f"{times.limit}, which is {_clock(times.due or '')}",
        f"{roughly(times.reserve_s or 0)} reserved for the end",
    ]
    if times.in_time:
        words.append("all epochs are trained by then")
    elif times.epochs_in_time is not None:
        words.append(f"about {times.epochs_in_time:.1f} epochs are trained by then")
    return "; ".join(words)


def _models(forecast: Forecast) -> Iterator[tuple[str, str]]:
    champion, publish = forecast.champion, forecast.publish
    if champion is not None:
        of = f", of {champion.date}, run {champion.run_id}" if champion.run_id else ""
        metrics = champion.metrics.get("validation") or champion.metrics.get("train") or {}
        shown = "".join(f", {name} {value:.4f}" for name, value in metrics.items())
        yield "champion", f"version {champion.version}{of}{shown}"
    if publish is not None:
        texts = {
            "new": f"as version {publish.version}, of {publish.date}",
            "newer stands": f"not: version {publish.version} is of {publish.standing_date}, after {publish.date}",
            "published": f"is published already, as version {publish.version}",
        }
        yield "publish", texts[publish.outcome]
    if forecast.init_from:
        yield "begins from", forecast.init_from


def _named(names: Sequence[str], most: int) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _clock(text: str) -> str:
    return f"{dt.datetime.fromisoformat(text):%Y-%m-%d %H:%M} UTC"
