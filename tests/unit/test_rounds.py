"""Which workers' gradients make an update together, by what each of them has told."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from sparktf.trainer.parameter_server.shared_updates.rounds import (
    NO_ROUND,
    Phase,
    RoundOutcome,
    Rounds,
    RoundVerdict,
    Who,
)

ONE, OTHER, BACKUP = (Who(index, 0) for index in range(3))
PENDING, MADE, DROPPED = RoundVerdict.PENDING, RoundVerdict.MADE, RoundVerdict.DROPPED


def opened(wanted: int = 2, workers: int = 2, updates: int | None = None) -> Rounds:
    rounds = Rounds(wanted, workers)
    rounds.open(updates)
    return rounds


def bring(rounds: Rounds, *workers: Who, rows: int = 4) -> None:
    """Has workers compute a gradient each for the round of now, and bring it."""
    number = rounds.number
    for who in workers:
        assert rounds.begin(who, has_rows=True) == number
        assert rounds.enter(who, number, rows)
        rounds.arrive(who, number)


def make(rounds: Rounds) -> None:
    assert is_full(rounds)
    rounds.finish()


def is_full(rounds: Rounds) -> bool:
    return rounds.phase is Phase.FULL


def test_an_update_is_made_once_all_gradients_it_takes_are_there() -> None:
    rounds = opened()
    assert [rounds.begin(who, has_rows=True) for who in (ONE, OTHER)] == [0, 0]
    assert rounds.enter(ONE, 0, rows=3)
    assert rounds.enter(OTHER, 0, rows=4)
    rounds.arrive(OTHER, 0)
    assert not is_full(rounds)
    rounds.arrive(ONE, 0)
    assert is_full(rounds)
    assert rounds.sizes == (0, 2, 7)
    assert rounds.outcome(ONE, 0) == RoundOutcome(PENDING, 0)
    rounds.finish()
    assert [rounds.outcome(who, 0) for who in (ONE, OTHER)] == [RoundOutcome(MADE, 1)] * 2
    assert (rounds.steps, rounds.dropped) == (1, 0)


def test_whoever_comes_late_is_told_the_next_round_and_holds_up_nobody() -> None:
    rounds = opened(wanted=2, workers=3)
    slow = rounds.begin(BACKUP, has_rows=True)
    bring(rounds, ONE, OTHER)
    assert not rounds.enter(BACKUP, slow, rows=4)  # while the update is being made
    assert rounds.outcome(BACKUP, slow) == RoundOutcome(PENDING, 0)
    make(rounds)
    assert rounds.outcome(BACKUP, slow) == RoundOutcome(DROPPED, 1)
    bring(rounds, ONE, OTHER)
    make(rounds)
    assert not rounds.enter(BACKUP, 1, rows=4)
    assert rounds.outcome(BACKUP, 1) == RoundOutcome(DROPPED, 2)
    assert (rounds.steps, rounds.dropped) == (2, 2)


def test_no_more_gradients_go_into_an_update_than_it_takes() -> None:
    rounds = opened(wanted=1, workers=2)
    assert rounds.enter(ONE, 0, rows=4)
    assert not rounds.enter(OTHER, 0, rows=4)  # though the first one is not there yet
    rounds.arrive(OTHER, 0)
    assert not is_full(rounds)


def test_the_last_updates_of_an_epoch_take_what_there_is() -> None:
    rounds = opened()
    bring(rounds, ONE)
    assert not is_full(rounds)
    assert rounds.begin(OTHER, has_rows=False) == NO_ROUND
    make(rounds)
    bring(rounds, ONE)
    make(rounds)
    assert rounds.begin(OTHER, has_rows=True) == 2  # a lost worker's rows have come to it
    bring(rounds, ONE)
    assert not is_full(rounds)
    rounds.begin_epoch()
    rounds.enter(OTHER, 2, rows=4)
    rounds.arrive(OTHER, 2)
    assert is_full(rounds)


def test_in_the_next_epoch_all_are_waited_for_again() -> None:
    rounds = opened()
    rounds.begin(OTHER, has_rows=False)
    rounds.begin_epoch()
    bring(rounds, ONE)
    assert not is_full(rounds)


def test_a_limit_is_met_exactly() -> None:
    rounds = opened(wanted=1, updates=2)
    for _ in range(2):
        bring(rounds, ONE)
        make(rounds)
    assert rounds.phase is Phase.CLOSED
    assert rounds.outcome(ONE, 1) == RoundOutcome(MADE, NO_ROUND)
    assert rounds.begin(ONE, has_rows=True) == NO_ROUND
    rounds.open(0)
    assert rounds.phase is Phase.CLOSED
    rounds.open(1)
    bring(rounds, ONE)
    make(rounds)
    assert (rounds.steps, rounds.phase) == (3, Phase.CLOSED)


def test_what_waits_for_others_when_a_checkpoint_is_due_is_thrown_away() -> None:
    rounds = opened()
    bring(rounds, ONE)
    rounds.close()
    assert rounds.phase is Phase.VOID
    assert not rounds.enter(OTHER, 0, rows=4)
    rounds.finish()
    assert [rounds.outcome(who, 0) for who in (ONE, OTHER)] == [RoundOutcome(DROPPED, NO_ROUND)] * 2
    assert (rounds.steps, rounds.dropped, rounds.phase) == (0, 2, Phase.CLOSED)
    rounds.open(None)
    bring(rounds, ONE, OTHER)
    make(rounds)


def test_an_update_that_is_being_made_when_a_checkpoint_is_due_is_made() -> None:
    rounds = opened()
    bring(rounds, ONE, OTHER)
    rounds.close()
    make(rounds)
    assert rounds.outcome(ONE, 0) == RoundOutcome(MADE, NO_ROUND)


def test_with_nobody_in_it_a_round_is_closed_at_once() -> None:
    rounds = opened()
    number = rounds.begin(ONE, has_rows=True)
    rounds.close()
    assert rounds.phase is Phase.CLOSED
    assert not rounds.enter(ONE, number, rows=4)
    assert rounds.outcome(ONE, number) == RoundOutcome(DROPPED, NO_ROUND)


def test_the_gradient_of_a_worker_that_is_lost_is_not_used() -> None:
    rounds = opened()
    bring(rounds, ONE)
    rounds.succeed(ONE.worker, 1)
    assert rounds.phase is Phase.VOID
    rounds.finish()
    assert rounds.outcome(ONE, 0) == RoundOutcome(DROPPED, NO_ROUND)
    assert not rounds.enter(ONE, 1, rows=4)
    assert rounds.begin(ONE, has_rows=True) == NO_ROUND
    bring(rounds, OTHER)
    rounds.begin(ONE, has_rows=False)  # the lost one's last word
    assert not is_full(rounds)
    bring(rounds, Who(ONE.worker, 1))
    make(rounds)


def test_one_that_was_lost_while_its_update_was_made_is_in_it() -> None:
    rounds = opened()
    bring(rounds, ONE, OTHER)
    rounds.succeed(ONE.worker, 1)
    make(rounds)
    assert rounds.outcome(OTHER, 0) == RoundOutcome(MADE, 1)


def test_a_worker_that_begins_anew_has_broken_off_and_nobody_waits_for_its_gradient() -> None:
    rounds = opened()
    rounds.begin(ONE, has_rows=True)
    assert rounds.enter(ONE, 0, rows=4)
    rounds.begin(ONE, has_rows=True)
    assert rounds.phase is Phase.VOID
    rounds.finish()
    rounds.arrive(ONE, 0)  # of the execution that broke off
    bring(rounds, OTHER, ONE)
    make(rounds)


def test_what_a_broken_execution_has_brought_is_not_told_as_the_next_ones() -> None:
    rounds = opened()
    bring(rounds, ONE, OTHER)
    assert rounds.begin(ONE, has_rows=True) == 0  # while the update is made
    make(rounds)
    assert not rounds.enter(ONE, 0, rows=4)
    assert rounds.outcome(ONE, 0) == RoundOutcome(DROPPED, 1)
    assert rounds.outcome(OTHER, 0) == RoundOutcome(MADE, 1)


def test_an_execution_that_broke_off_and_goes_on_takes_part_no_more() -> None:
    older, newer = Who(ONE.worker, 0, take=1), Who(ONE.worker, 0, take=2)
    rounds = opened()
    assert [rounds.begin(who, has_rows=True) for who in (older, newer)] == [0, 0]
    assert not rounds.enter(older, 0, rows=4)
    assert rounds.enter(newer, 0, rows=3)
    rounds.arrive(newer, 0)
    bring(rounds, OTHER)
    make(rounds)
    assert rounds.sizes == (1, 0, 0)
    assert rounds.outcome(older, 0) == RoundOutcome(DROPPED, NO_ROUND)
    assert rounds.outcome(newer, 0) == RoundOutcome(MADE, 1)
    assert rounds.begin(older, has_rows=True) == NO_ROUND  # it began late


@pytest.mark.parametrize("seed", range(30))
def test_whatever_happens_every_row_goes_into_one_update_and_an_end_comes(seed: int) -> None:
    draw = random.Random(seed)
    workers = draw.randint(1, 4)
    wanted = draw.randint(1, workers)
    rounds = opened(wanted, workers)
    left = [draw.randint(0, 12) for _ in range(workers)]
    planned = sum(left)
    made: Counter[int] = Counter()
    at: list[tuple[str, int]] = [("out", NO_ROUND)] * workers
    for _ in range(20_000):
        if rounds.phase in (Phase.FULL, Phase.VOID) and draw.random() < 0.5:
            rounds.finish()
        if draw.random() < 0.02:
            rounds.close()
        if rounds.phase is Phase.CLOSED and draw.random() < 0.5:
            rounds.open(draw.choice([None, 1, 3]))
        index = draw.randrange(workers)
        who, (state, number) = Who(index, 0), at[index]
        if state == "out" or draw.random() < 0.02:  # or breaks off, when its gradient may be in for nothing
            if state == "waits" and rounds.outcome(who, number).verdict is MADE:
                left[index], made[number] = left[index] - 1, made[number] + 1
            number = rounds.begin(who, has_rows=left[index] > 0)
            at[index] = ("out" if number == NO_ROUND else "computes", number)
        elif state == "computes":
            at[index] = ("brings" if rounds.enter(who, number, 1) else "waits", number)
        elif state == "brings":
            rounds.arrive(who, number)
            at[index] = ("waits", number)
        else:
            verdict, following = rounds.outcome(who, number)
            if verdict is MADE:
                left[index], made[number] = left[index] - 1, made[number] + 1
            if verdict is not PENDING:
                at[index] = ("computes" if following != NO_ROUND and left[index] else "out", following)
        if not sum(left):
            break
    assert sum(made.values()) == planned
    assert max(made.values(), default=0) <= wanted
    assert rounds.steps >= len(made)
