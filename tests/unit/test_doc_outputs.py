"""Output that the documentation shows is what the program says."""

from __future__ import annotations

import io

from source_trees import ROOT

from sparktf.config.patience import EarlyStoppingConfig
from sparktf.console.plain_console import PlainConsole
from sparktf.console.result_table import print_result
from sparktf.errors import Verdict
from sparktf.nightly.errand import Ended
from sparktf.results.carried import Carried, CarriedVariable
from sparktf.results.comparison import Comparison, Difference
from sparktf.results.result import RunResult
from sparktf.rundir import RunDirectory
from sparktf.storage.transactions.ownership import owned_error
from sparktf.storage.transactions.terms import Owner, Term
from sparktf.trainer.node.plateau import Standstill, plateau_text


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_a_warm_start() -> None:
    kept = [CarriedVariable(name=f"w{i}", shape=(1,), how="kept") for i in range(11)]
    table = CarriedVariable(name="table", shape=(123, 8), how="entries", kept=120, new=3, left=2)
    made = CarriedVariable(name="new", shape=(1,), how="new", why="another shape")
    carried = Carried(source="version 14", variables=(*kept, table, made))
    assert f"\n{carried.in_words()}\n" in page("nights/warm-start.md")


def test_a_gate() -> None:
    auc = Difference(
        metric="auc",
        rows=80_000,
        challenger=0.8120,
        champion=0.8312,
        tolerance=0.002,
        finding="worse",
        low=-0.0217,
        high=-0.0167,
    )
    changed = {"slice": "country=de", "rows": 51_210, "challenger": 0.8301, "champion": 0.8309}
    of_a_slice = auc.model_copy(update={**changed, "low": -0.0041, "high": 0.0026, "finding": "undecided"})
    comparison = Comparison(
        promote=False, reason="worse", champion="version 14", replicates=2_000, differences=(auc, of_a_slice)
    )
    shown = io.StringIO()
    result = RunResult(run_id="2026-11-20", name="churn", verdict=Verdict.GATED, comparison=comparison)
    print_result(PlainConsole(file=shown, width=120), result)
    table = shown.getvalue().partition("churn / 2026-11-20")[0]
    assert "\n".join(line.rstrip() for line in table.splitlines()) in page("nights/gate.md")


def test_an_early_end() -> None:
    rule = EarlyStoppingConfig(metric="val_loss", patience=3, min_delta=0.001)
    said = plateau_text("val_loss", rule, Standstill(epochs=3, best=3, value=0.41), epoch=6)
    assert f"\n{said}\n" in page("nights/stopping.md")


def test_an_owner() -> None:
    since = "2026-11-20T02:00:11+00:00"
    owner = Owner(application="application_1795_0042", attempt=1, host="edge1", user="etl", since=since, nonce="")
    error = owned_error(RunDirectory("/runs", "churn", "2026-11-20"), Term(1, owner))
    told, _, _ = str(error).partition(", and this one")
    assert f"OwnedError: {told}" in page("nights/ownership.md")


def test_a_command_of_the_users_that_fails() -> None:
    complaint = Ended(3, ["no mail server"]).complaint(60)
    assert f"warning: output.on_end: /opt/churn/notify.py {complaint}\n" in page("nights/guests.md")
