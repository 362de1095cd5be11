"""Nodes and attempts on the page of a run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from sparktf.nightly.report import charts, words
from sparktf.nightly.report.charts import AttemptBar, MarkedBar
from sparktf.nightly.report.drawing import Pen
from sparktf.nightly.report.page_tables import Cell, TableColumn, table
from sparktf.nightly.report.stored import SeenAttempt, StoredRun
from sparktf.results.pace import NodePace
from sparktf.results.result import NodeResult

_NODES = 60
"""The most nodes in the table, those that waited longest first."""

_NODE_COLUMNS = [
    TableColumn("node", "node"),
    TableColumn("host", "host"),
    TableColumn("rows", "rows", "n"),
    TableColumn("rate", "rows/s", "n"),
    TableColumn("waited", "waited for rows", "n"),
    TableColumn("computed", "computes (95 %)", "n"),
    TableColumn("peers", "with its peers", "n"),
    TableColumn("read", "read", "n"),
    TableColumn("local", "on its own host", "n"),
    TableColumn("log", "log", "t"),
]

_ATTEMPT_COLUMNS = [
    TableColumn("number", "attempt"),
    TableColumn("ended", "ended", "w"),
    TableColumn("began", "began"),
    TableColumn("took", "took", "n"),
    TableColumn("steps", "updates", "n"),
    TableColumn("workers", "workers", "n"),
    TableColumn("hosts", "hosts", "t"),
]

_HOSTS = 6
_OUTLIVED = 20
"""The most losses without a new attempt that are told one by one."""
_ATTEMPTS = 50


def nodes_view(pen: Pen, run: StoredRun) -> dict[str, Any] | None:
    """Returns the section on the nodes: their speed, their waiting, the locality of their data."""
    attempts = run.told.attempts
    last = next((a for a in reversed(attempts) if a.result is not None and a.result.nodes), None)
    nodes = [node for node in _nodes(last) if node.nbytes or node.input.seconds or node.made or node.pace]
    waiting = [MarkedBar(n.node, n.input.wait_s, n.input.seconds) for n in nodes if n.input.seconds]
    waiting.sort(key=lambda share: -share.part)
    read = [MarkedBar(_place(n), float(n.local_nbytes or 0), n.nbytes) for n in nodes if n.local_nbytes is not None]
    read.sort(key=lambda share: share.part / share.whole if share.whole else 1.0)
    size, unit = _size(max((share.whole for share in read), default=0.0))
    read = [MarkedBar(label, part / size, whole / size) for label, part, whole in read]
    waited, beside = _said("Waited for rows", waiting), _said("Read on its own host", read)
    figures = words.figures(
        pen,
        ("rows a second, over time", lambda pen: charts.throughput(pen, attempts)),
        ("waiting for rows", lambda pen: charts.shares(pen, waiting, "seconds", ("waited", "trained"), waited)),
        ("read beside the data", lambda pen: charts.shares(pen, read, unit, ("own host", "other hosts"), beside)),
    )
    if not figures.charts and not nodes:
        return None
    rows = sorted(nodes, key=lambda n: -n.input.wait_s)[:_NODES]
    rows.sort(key=nodes.index)
    hidden = len(nodes) - len(rows)
    return {
        "summary": _summary(run),
        "figures": figures,
        "table": table("Nodes of the last attempt", _NODE_COLUMNS, [_row(node, last) for node in rows]),
        "more": f"{hidden:,} more nodes, which waited less, are in result.json." if hidden else "",
    }


def attempts_view(pen: Pen, run: StoredRun, now_s: float) -> dict[str, Any] | None:
    """Returns the section on phases and attempts."""
    told, result = run.told, run.result
    begin_s = min((*told.began_s, *(a.began_s for a in told.attempts if a.began_s)), default=0.0)
    spans = [
        AttemptBar(f"attempt {a.number}", a.began_s - begin_s, (a.ended_s or now_s) - begin_s, _tone(a))
        for a in told.attempts
        if a.began_s
    ]
    seconds = {} if result is None else result.seconds
    figures = words.figures(
        pen,
        ("time by phase", lambda pen: charts.phases(pen, seconds)),
        ("attempts", lambda pen: charts.timeline(pen, spans)),
    )
    if not figures.charts and not told.attempts:
        return None
    notes = []
    if len(told.began_s) > 1:
        notes.append(f"Submitted {len(told.began_s)} times; the phases are those of the last submission.")
    if len(told.attempts) > _ATTEMPTS:
        notes.append(f"The last {_ATTEMPTS} of {len(told.attempts):,} attempts:")
    notes += _outlived(told.attempts)
    rows = [_attempt(a, now_s) for a in told.attempts[-_ATTEMPTS:]]
    for row, before in reversed(list(pairwise(reversed(rows)))):
        row["hosts"] = "the same" if row["hosts"] == before["hosts"] else row["hosts"]
    return {"notes": notes, "figures": figures, "table": table("Attempts", _ATTEMPT_COLUMNS, rows)}


def _nodes(attempt: SeenAttempt | None) -> tuple[NodeResult, ...]:
    return () if attempt is None or attempt.result is None else attempt.result.nodes


def _place(node: NodeResult) -> str:
    return f"{node.node}, {node.host}" if node.host else node.node


def _said(what: str, shares: list[MarkedBar]) -> str:
    known = [f"{share.label} {words.percent(share.part / share.whole)}" for share in shares[:12] if share.whole]
    return f"{what}: {', '.join(known)}"


def _size(nbytes: float) -> tuple[float, str]:
    for size, unit in ((1e9, "GB"), (1e6, "MB")):
        if nbytes >= size:
            return size, unit
    return 1e3, "kB"


def _summary(run: StoredRun) -> str:
    result = run.result
    if result is None:
        return "As far as its nodes have told."
    said = []
    if result.locality is not None:
        nbytes = sum(read for read, _ in result.host_nbytes.values())
        own = words.percent(result.locality)
        said.append(f"{words.nbytes(nbytes)} were read, {own} of them on the reader's own host.")
    if result.waiting_share is not None:
        said.append(f"Training waited for rows {words.percent(result.waiting_share)} of the time.")
    if result.attempts and result.attempts[-1].advice:
        said.append(result.attempts[-1].advice)
    return " ".join(said)


def _row(node: NodeResult, attempt: SeenAttempt | None) -> dict[str, str | Cell]:
    samples = None if attempt is None else attempt.samples
    counts = () if samples is None else samples.rows.get(node.node, ())
    rows = sum(node.input.rows.values()) or (node.made.rows if node.made else 0)
    taken_s = samples.seconds[-1] - samples.seconds[0] if samples is not None and len(counts) > 1 else 0.0
    rate = (counts[-1] - counts[0]) / taken_s if taken_s else 0.0
    waited = node.input.wait_s / node.input.seconds if node.input.seconds else None
    local = node.local_nbytes / node.nbytes if node.nbytes and node.local_nbytes is not None else None
    return {
        "node": node.node,
        "host": node.host,
        "rows": f"{rows:,}",
        "rate": words.number(rate, whole=True) if rate else "",
        "waited": words.percent(waited),
        **_pace(node.pace),
        "read": words.nbytes(node.nbytes) if node.nbytes else "",
        "local": words.percent(local),
        "log": Cell("log", link=node.log) if node.log.startswith(("http://", "https://")) else node.log,
    }


def _pace(pace: NodePace | None) -> dict[str, str | Cell]:
    """Returns the cells about a node's updates, where all make them together."""
    if pace is None:
        return {"computed": "", "peers": ""}
    return {
        "computed": f"{_time(pace.computing.p50_s)} ({_time(pace.computing.p95_s)})",
        "peers": f"{_time(pace.peers_wait.p50_s)} ({_time(pace.peers_wait.p95_s)})",
    }


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _tone(attempt: SeenAttempt) -> str:
    if attempt.is_lost:
        return "waits"
    if attempt.result is None:
        return "plain"
    return "bad" if attempt.result.root_cause is not None else "good"


def _attempt(attempt: SeenAttempt, now_s: float) -> dict[str, str]:
    ended = attempt.result
    hosts = attempt.hosts.split(", ")
    shown = ", ".join(hosts[:_HOSTS]) + (f" and {len(hosts) - _HOSTS} more" if len(hosts) > _HOSTS else "")
    until_s = attempt.ended_s or now_s
    took_s = ended.duration_s if ended is not None else until_s - attempt.began_s
    reached = ended.to_step if ended is not None else max(attempt.samples.steps, default=attempt.from_step)
    return {
        "number": str(attempt.number),
        "began": words.moment(attempt.began_s),
        "took": words.length(took_s),
        "steps": f"{attempt.from_step:,} to {reached:,}",
        "workers": str(attempt.workers),
        "hosts": shown,
        "ended": _ended(attempt),
    }


def _outlived(attempts: Sequence[SeenAttempt]) -> list[str]:
    """Returns a line for each loss that cost no attempt, the earliest first."""
    said = [f"Attempt {a.number}: {each.in_words()}." for a in attempts for each in a.outlived]
    hidden = len(said) - _OUTLIVED
    if hidden > 0:
        said = [*said[:_OUTLIVED], f"{hidden:,} more losses that cost no attempt are in result.json."]
    replays = [a.result.replay_end for a in attempts if a.result is not None and a.result.replay_end]
    return [*said, *(f"{end[0].upper()}{end[1:]}." for end in replays)]


def _ended(attempt: SeenAttempt) -> str:
    if attempt.is_lost:
        return "its driver was lost, and the run submitted again"
    if attempt.result is None:
        return "under way"
    cause, losses = attempt.result.root_cause, attempt.result.losses
    if cause is not None:
        return f"{cause.message} ({cause.node}{f' on {cause.host}' if cause.host else ''})"
    replaced = f", {len(losses)} lost nodes replaced on the way" if losses else ""
    return f"done{replaced}"
