"""The simulator itself: a seed says everything, and a thousand nodes are few enough."""

from __future__ import annotations

from simulation.world import World


def test_without_faults_a_run_is_done_at_its_first_submission() -> None:
    for seed in range(6):
        world = World(seed, kinds=frozenset())
        found = world.play()
        assert not found.violations
        assert (found.end[:4], len(world.submissions), found.faults) == ("DONE", 1, ())


def test_a_seed_is_played_again_as_it_was() -> None:
    first, again = World(2).play(), World(2).play()
    assert first.faults
    assert again == first


def test_submissions_are_left_for_when_nothing_goes_wrong_any_more() -> None:
    # Drivers that run beside each other end one soon after the other, on a disk that stays full.
    world = World(1123)
    found = world.play()
    before = [submission for submission in world.submissions if submission.begun_s < world.faults.until_s]
    assert (len(before), found.violations) == (6, [])


def test_a_thousand_nodes_are_simulated_too() -> None:
    found = World(6, nodes=1000, kinds=frozenset({"trainer-dies"})).play()
    assert (found.end[:4], found.violations) == ("DONE", [])
    assert found.faults
