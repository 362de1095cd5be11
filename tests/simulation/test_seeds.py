"""The simulator itself: a seed says everything, and a thousand nodes are few enough."""

from __future__ import annotations

from inspect import Parameter, signature
from pkgutil import resolve_name
from typing import Any

import pytest
from simulation import limits
from simulation.checks import PAUSED
from simulation.mutants import MUTANTS, Mutant, without
from simulation.strategies import LOCKSTEP, PARAMETER_SERVER
from simulation.world import World


def test_without_faults_a_run_is_done_at_its_first_submission() -> None:
    for seed, strategy in [*((seed, LOCKSTEP) for seed in range(6)), *((seed, PARAMETER_SERVER) for seed in range(3))]:
        world = World(seed, strategy=strategy, kinds=frozenset())
        found = world.play()
        assert not found.violations
        assert (found.end[:4], len(world.submissions), found.faults) == ("DONE", 1, ())


def test_a_seed_is_played_again_as_it_was() -> None:
    for strategy in (LOCKSTEP, PARAMETER_SERVER):
        first, again = World(2, strategy=strategy).play(), World(2, strategy=strategy).play()
        assert first.faults
        assert again == first


def test_successors_join_the_attempt_that_has_lost_workers() -> None:
    world = World(3, strategy=PARAMETER_SERVER, kinds=frozenset({"caller-dies", "execution-breaks"}))
    found = world.play()
    trainers = [trainer for submission in world.submissions for trainer in submission.site.trainers]
    assert (found.end[:4], found.violations) == ("DONE", [])
    assert any(trainer.spec.incarnation for trainer in trainers)


def test_drivers_that_stand_still_while_all_nodes_are_well_lose_nothing() -> None:
    for seed, strategy in [(2, LOCKSTEP), (18, LOCKSTEP), (9, PARAMETER_SERVER), (0, PARAMETER_SERVER)]:
        world = World(seed, strategy=strategy, kinds=frozenset({"driver-pauses"}))
        found = world.play()
        (submission,) = world.submissions
        assert any(hit.what == PAUSED for hit in world.hits[submission.process.name])
        assert (found.end[:4], found.violations) == ("DONE", [])
        assert submission.result is not None
        assert [(attempt.losses, attempt.failures) for attempt in submission.result.attempts] == [((), ())]


def test_submissions_are_left_for_when_nothing_goes_wrong_any_more() -> None:
    # Drivers that run beside each other end one soon after the other, on a disk that stays full.
    world = World(115)
    found = world.play()
    before = [submission for submission in world.submissions if submission.begun_s < world.faults.until_s]
    assert (len(before), found.violations) == (6, [])


def test_a_seed_that_would_not_end_is_ended_by_its_limits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spinning = {
        "_EVENTS": (1_000, "the seed has had 1000 events"),
        "_CPU_S": (0.3, "the seed has taken 0.3 s of the processor"),
    }
    monkeypatch.setattr(limits, "DECISIONS", ())
    monkeypatch.setattr(limits, "_EVENTS_OF_A_NODE", 0)
    monkeypatch.setattr(limits, "_CPU_OF_A_NODE_S", 0.0)
    with without("what comes back is taken"):
        for limit, (value, said) in spinning.items():
            with monkeypatch.context() as limited:
                limited.setattr(limits, limit, value)
                found = World(3, strategy=PARAMETER_SERVER).play()
            assert [violation for violation in found.violations if said in violation]
            assert found.seconds < 60.0


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.guard)
def test_what_stands_in_a_guards_place_can_be_called_as_it_is(mutant: Mutant) -> None:
    for target, instead in mutant.patches.items():
        takes = signature(_function(resolve_name(target))).parameters.values()
        by_name = {one.name: None for one in takes if one.kind is Parameter.KEYWORD_ONLY}
        signature(_function(instead)).bind(*[None] * (len(takes) - len(by_name)), **by_name)


def _function(there: Any) -> Any:
    return there.fget if isinstance(there, property) else there


def test_a_thousand_nodes_are_simulated_too() -> None:
    found = World(6, nodes=1000, kinds=frozenset({"trainer-dies"})).play()
    assert (found.end[:4], found.violations) == ("DONE", [])
    assert found.faults
