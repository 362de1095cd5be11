"""A node of a synchronous gang that computes longer than the others is named while the run goes on, and told apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from trainer import lake
from trainer.local_gang import LocalGang

from sparktf.knobs import KNOBS

ROWS = 1200
LONGER_S = 0.04


def test_a_node_that_computes_longer_is_named_and_the_others_wait_for_it(
    tmp_path: Path, gang: LocalGang, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KNOBS, "slow_s", 1.0)
    lake.write(tmp_path / "lake", [40] * (ROWS // 40))
    config = lake.job(
        tmp_path,
        "counted",
        workers=2,
        params={"flavour": "keras", "rows": ROWS, "slow": (ROWS // 2, LONGER_S)},
        data={"inputs": {"row": "row"}, "targets": {"label": "label"}, "shuffle": False, "shuffle_rows": 1},
        train={"batch_size": 20, "epochs": 3, "steps_per_call": 16},
        cluster={"collectives": "sparktf"},
    )
    result = gang.train(config)
    (attempt,) = result.attempts
    (slow,) = attempt.slow
    assert (slow.node, slow.host) == ("worker 1", attempt.hosts[1])
    assert slow.median_s < LONGER_S <= slow.computing_s
    assert 0 < slow.step < result.steps
    assert result.warnings == (slow.in_words(),)
    assert "worker 1 on" in gang.output.getvalue()
    fast, slower = (node.pace for node in attempt.nodes)
    assert fast is not None
    assert slower is not None
    assert fast.computing.p50_s < LONGER_S / 2 < fast.peers_wait.p50_s
    assert slower.peers_wait.p50_s < LONGER_S / 2 < slower.computing.p50_s
    assert max(fast.rows_wait.p50_s, slower.rows_wait.p50_s) < LONGER_S / 2
