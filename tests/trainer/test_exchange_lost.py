"""Who counts as lost over an exchange, and who is waited for, on hosts whose link is cut."""

from __future__ import annotations

import datetime

import pytest
from linked_hosts import run_cut

from minihadoop.namespaces import edge_options
from sparktf.knobs import KNOBS
from sparktf.wire.certificates import new_tls_material


@pytest.mark.parametrize(
    ("unanswered_s", "computes_s"),
    [
        (2, 3),
        pytest.param(
            KNOBS.unanswered_s,
            125,
            marks=pytest.mark.more(
                "trainer/test_exchange_lost.py::test_who_computes_is_waited_for_and_a_cut_link_is_not"
            ),
            id="two minutes",
        ),
    ],
)
def test_who_computes_is_waited_for_and_a_cut_link_is_not(unanswered_s: float, computes_s: float) -> None:
    """Member 1 computes for longer than a link may be without an answer; then a firewall drops all that is sent."""
    tls = new_tls_material(datetime.datetime.now(datetime.UTC)).model_dump()
    settings = {"unanswered_s": unanswered_s, "computes_s": computes_s, "tls": tls}
    one, other = run_cut(edge_options(user_namespace=False), settings)
    assert one["sums"] == other["sums"] == [2.0, 2.0]
    # Member 0 had bytes on their way, and member 1 only waited: both live, and both say the same.
    why = f"the network has taken no bytes between worker 0 and worker 1 for {unanswered_s:g} s"
    assert one["told"] == other["told"] == ["LinkCutError", f"{why}: worker 1 counts as lost"]
