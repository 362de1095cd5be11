"""Old defects as named cases: a guard, and a seed that notices when it is gone."""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    """A guard, the seed that notices, and what it says of the run without the guard."""

    guard: str
    seed: int
    on: str | None  # The only kinds of faults that are on; None for those that the seed draws
    said: str

    @property
    def kinds(self) -> frozenset[str] | None:
        """See `World`."""
        return None if self.on is None else frozenset(self.on.split())


CASES = [
    Case("[1] a model is replaced through the fence", 73, "driver-frozen driver-twice", "had taken the run over"),
    Case("[6] an agent that was lost begins anew", 3, "node-freezes", "went home as a success"),
    Case("[7] a silent trainer is looked for while only peers have spoken", 46, "trainer-freezes", "which was gone"),
    Case(
        "a link that is cut is the cause where its ends have left others", 158, "link-cut clocks-differ", "link was cut"
    ),
    Case("[9] what cannot be stored is not trained again", 12, "disk-full", "which could not be stored"),
    Case("who changes the models first ends all other turns", 24, None, "took the place of one of"),
    Case("a run has one version", 16, None, "a run has two versions"),
    Case("what follows a result is recorded before it", 1, "night-killed", "the history has no row of it"),
    Case("what a killed driver has left is done before its verdict is repeated", 184, "night-killed", "no row of it"),
    Case("who comes to lead stores again", 1263, "trainer-dies node-dies storage-slow", "its last checkpoint is"),
    Case(
        "each trainer uploads into folders of its own",
        12,
        "trainer-dies node-dies storage-slow",
        "stores /runs/t/r/checkpoints/_tmp/001-step-000000000004/",
    ),
    Case("who leads has the state", 33, "trainer-dies node-dies", "something had happened to it"),
    Case("too few members store what they have", 790, "trainer-dies node-dies agent-away", "and lost it: worker"),
    Case("leases of a closed incarnation return", 3, "worker-dies", "timeouts.progress"),
    Case("a checkpoint waits for what is under way", 3, None, "were not trained on as its position says"),
    Case("messages of older incarnations are refused", 3, None, "something had happened to it"),
    Case("rows that were replayed in earlier attempts are counted", 49, None, "are told as replayed"),
    Case("a wish for a checkpoint is there once", 26, "", "SaveNow() twice"),
    Case("a worker that is lost while the gang starts is followed", 1, None, "has ended for a worker that is lost"),
    Case("[10] no checkpoint after an epoch whose rows do not add up", 205, None, "rows of epoch 0 were not trained"),
    Case(
        "an epoch waits for the words of one that is lost",
        50977,
        "storage-hangs message-late trainer-dies driver-frozen",
        "rows planned, 61 fed",
    ),
    Case("no checkpoint after an epoch with too many bad rows", 20145, "driver-twice", "more rows are set aside than"),
    Case(
        "a checkpoint waits for the words of all about the epochs before it", 47, "trainer-dies", "manifest tells of 0"
    ),
    Case("a driver that stood still has heard nobody", 2, "driver-pauses", "nothing had happened to it"),
    Case("it is fed again once nobody has any of it", 842, None, "are held by no worker"),
    Case("no rows for now is no end of an epoch", 53, "trainer-dies node-dies feeder-late", "rows planned"),
    Case("what a lost member had is fed again", 90, "trainer-dies node-dies feeder-late", "rows planned"),
    Case("a node that was taken back costs no attempt", 18, "node-preempted", "ended for a node that was taken back"),
    Case(
        "a run whose nodes are taken back again and again, and which gets nowhere, is given up",
        260,
        "node-preempted",
        "was not given up at step 0",
    ),
    Case("a run's row is its owner's", 499, None, "had taken the run over"),
]
