"""Who goes on after a loss, from where, and who joins: by what members and their agents have told."""

from __future__ import annotations

import pytest

from sparktf.driver.attempt.discipline import Fail, Leave
from sparktf.driver.attempt.generations import IN_VAIN, Generations, Stood
from sparktf.driver.attempt.members import Trainer
from sparktf.driver.attempt.reporters import Reporters
from sparktf.driver.attempt.rows.accounting import EpochAccount
from sparktf.driver.attempt.saves import Start
from sparktf.errors import ErrorRecord, RowAccountingError, Verdict
from sparktf.sequence import Cursor, Interval, Stream
from sparktf.topology import NodeId, Role
from sparktf.wire.control import AssignmentAnswer, AssignmentRequest
from sparktf.wire.regrouping import GenerationOver, JoinersWait, Left, Regrouped

A, B, C = (NodeId(role=Role.WORKER, index=i) for i in range(3))
GANG = Generations.first((A, B, C))
LOST = ErrorRecord(type="NodeLostError", message="it has ended", verdict=Verdict.INFRASTRUCTURE, time_s=0.0)


def left(
    node: NodeId, completed: int = 7, generation: int = 1, *, kind: str = "PeerLostError", takes_in: bool = True
) -> Left:
    record = ErrorRecord(type=kind, message="it is gone", verdict=Verdict.INFRASTRUCTURE, time_s=0.0, peer=True)
    return Left(attempt=1, node=node, generation=generation, completed=completed, record=record, takes_in=takes_in)


def stands(node: NodeId, *done: Interval, generation: int = 2, is_complete: bool = False) -> Regrouped:
    return Regrouped(
        attempt=1, node=node, generation=generation, epoch=0, is_complete=is_complete, done=done, rows_aside=1
    )


def asks(node: NodeId, generation: int) -> AssignmentRequest:
    return AssignmentRequest(attempt=1, node=node, stream=Stream.TRAIN, epoch=0, generation=generation)


class TestTheNextGeneration:
    def test_is_decided_once_one_is_lost_and_all_others_have_left(self) -> None:
        state = GANG.leave(left(A))
        assert state.after(left(A)).generation is None
        state = state.lose(B)
        assert state.after(left(A)).generation is None
        assert state.order(C) == GenerationOver(number=1)
        assert state.order(A) is None
        new = state.leave(left(C)).present
        assert (new.number, new.members, new.operation, new.giver) == (2, (A, C), 7, None)

    def test_has_a_giver_where_one_member_lacks_the_last_result(self) -> None:
        state = GANG.lose(A).leave(left(B, 6)).leave(left(C, 7))
        assert (state.present.operation, state.present.giver) == (7, C)

    def test_goes_by_words_about_the_present_one_alone(self) -> None:
        state = GANG.lose(B).leave(left(A)).leave(left(C))
        assert state.leave(left(A, generation=1)) == state
        assert state.regrouped(stands(A, generation=1)) == state

    def test_begins_anew_where_another_one_is_lost_before_all_have_left_or_stand(self) -> None:
        state = GANG.lose(B).leave(left(A)).lose(C)
        assert state.present.members == (A,)
        state = GANG.lose(B).leave(left(A)).leave(left(C)).regrouped(stands(A)).lose(C).leave(left(A, 8, 2))
        assert (state.present.number, state.present.members, state.stands) == (3, (A,), {})

    def test_has_the_same_members_where_a_link_broke_and_nobody_is_lost_but_not_for_ever(self) -> None:
        state = GANG
        for number in range(1, IN_VAIN + 3):
            for node in (A, B, C):
                state = state.leave(left(node, 7, number))
            assert state.present.members == (A, B, C)
        assert (state.present.number, len(state.parted)) == (IN_VAIN + 2, 3)

    def test_does_not_come_where_a_link_is_cut(self) -> None:
        state = GANG.leave(left(A, kind="LinkCutError")).leave(left(B)).leave(left(C))
        assert state.present.number == 1
        assert {record.type for record in state.parted} == {"LinkCutError", "PeerLostError"}


class TestTheLeader:
    def test_leads_for_as_long_as_it_is_there(self) -> None:
        assert GANG.present.leader == A
        state = GANG.lose(B).leave(left(A)).leave(left(C))
        assert state.present.leader == A

    def test_is_followed_by_another_one_and_not_by_its_successor(self) -> None:
        state = GANG.lose(A).leave(left(B)).leave(left(C))
        assert (state.present.leader, state.is_headless) == (B, False)
        state = state.leave(left(A, 0, 0))
        assert state.order(B) == JoinersWait()
        state = state.leave(left(B, 9, 2)).leave(left(C, 9, 2))
        assert (state.present.members, state.present.leader) == ((A, B, C), B)

    def test_has_the_state(self) -> None:
        state = GANG.lose(A).leave(left(A, 0, 0)).leave(left(B)).leave(left(C))
        assert (state.present.joined, set(state.heirs)) == ((A,), {B, C})
        state = state.lose(B).leave(left(A, 7, 2)).leave(left(C, 7, 2))
        assert (state.present.leader, set(state.heirs)) == (C, {C})
        state = state.regrouped(stands(A, generation=3))
        assert state.lose(C).leave(left(A, 8, 3)).present.leader == A

    def test_that_is_lost_leaves_the_others_headless_until_all_have_left(self) -> None:
        assert GANG.lose(A).leave(left(B)).is_headless

    def test_may_be_lost_unless_nobody_is_left(self) -> None:
        reporters = Reporters((A, B), Start(outlives_losses=True), lambda: 0.0)
        assert reporters.confirmed(Leave(), A, LOST) == reporters.confirmed(Leave(), B, LOST) == Leave()
        assert reporters.confirmed(Leave(), B, LOST, others_lost=[A]) == Fail(LOST)

    def test_that_alone_remembers_something_leaves_it_to_the_others_to_store_what_they_have(self) -> None:
        members = {node: Trainer(node, "a", "h", heard_s=0.0, moved_s=0.0) for node in (A, B, C)}
        reporters = Reporters(members, Start(outlives_losses=True), lambda: 0.0, keeps_leader="it remembers")
        reporters.lose(C, LOST, members)
        assert reporters.next_in_words == "training goes on"
        assert reporters.left(left(B, 6), members) == reporters.left(left(C, 0, 0), members)
        reporters.lose(A, LOST, members)
        assert reporters.next_in_words == "the others store what they have, since it remembers"
        generation = reporters.left(left(B, 6), members).generation
        assert generation is not None
        assert (generation.members, generation.leader, generation.is_last) == ((B,), B, True)
        assert reporters.ended_by is not None
        assert reporters.ended_by.message == "it has ended; a new attempt begins, since it remembers"

    def test_that_is_lost_where_nobody_trains_leaves_them_no_rows_to_train(self) -> None:
        state = GANG.closing().lose(A).leave(left(B, takes_in=False)).leave(left(C, takes_in=False))
        assert not state.present.is_last
        for node in (B, C):
            state = state.regrouped(stands(node))
        assert state.refuses(asks(B, 2)) == AssignmentAnswer(is_over=True)
        assert state.leave(left(B, 8, 2)).leave(left(C, 8, 2)).present.is_last


class TestWhoHasClosedItsConnections:
    def test_may_have_ended_unless_it_says_so_itself(self) -> None:
        state = GANG.leave(left(A).model_copy(update={"closed_by": "worker 1"}))
        assert state.gone == {B}
        assert state.leave(left(B)).gone == frozenset()
        assert state.lose(B).gone == frozenset()


class TestAJoiner:
    def test_waits_until_all_stand_where_it_may_be_taken_in(self) -> None:
        state = GANG.lose(B).leave(left(A, takes_in=False)).leave(left(C)).leave(left(B, 0, 0))
        assert state.present.members == (A, C)
        assert state.order(A) == JoinersWait()
        assert state.order(C) is None
        assert state.after(left(B, 0, 0)).generation is None
        state = state.leave(left(A, 9, 2)).leave(left(C, 9, 2))
        assert (state.present.members, state.present.joined) == ((A, B, C), (B,))
        assert state.after(left(B, 0, 0)).generation == state.present
        assert state.order(A) is None

    def test_is_in_the_first_generation_after_the_loss_if_it_is_quick(self) -> None:
        state = GANG.lose(B).leave(left(B, 0, 0)).leave(left(A)).leave(left(C))
        assert (state.present.members, state.present.joined) == ((A, B, C), (B,))

    def test_that_is_lost_while_it_waits_costs_nothing(self) -> None:
        state = GANG.lose(B).leave(left(A)).leave(left(C)).leave(left(B, 0, 0)).lose(B)
        assert (state.waiting, state.lost) == (frozenset(), frozenset())

    def test_is_given_the_state_again_where_another_one_is_lost_before_it_had_it(self) -> None:
        state = GANG.lose(B).leave(left(B, 0, 0)).leave(left(A)).leave(left(C)).regrouped(stands(A))
        state = state.lose(C).leave(left(A, 7, 2)).leave(left(B, 7, 2))
        assert (state.present.members, state.present.joined) == ((A, B), (B,))

    def test_gives_no_result_to_others_before_it_has_the_state(self) -> None:
        state = GANG.lose(B).leave(left(B, 0, 0)).leave(left(A, 6)).leave(left(C, 7))
        assert (state.present.operation, state.present.giver) == (7, C)
        state = state.lose(C).leave(left(A, 6, 2)).leave(left(B, 7, 2))
        assert (state.present.joined, state.present.operation, state.present.giver) == ((B,), 6, None)

    def test_has_it_once_it_stands_where_all_do(self) -> None:
        state = GANG.lose(B).leave(left(B, 0, 0)).leave(left(A)).leave(left(C)).regrouped(stands(B))
        state = state.lose(C).leave(left(A, 7, 2)).leave(left(B, 7, 2))
        assert state.present.joined == ()


FEW = Generations.first((A, B, C), least=3)


class TestTooFewMembers:
    def test_wait_until_another_one_joins(self) -> None:
        state = FEW.lose(B).leave(left(A)).leave(left(C))
        assert (state.present, state.after(left(A)).generation) == (FEW.present, None)
        assert state.leave(left(A)) == state
        state = state.leave(left(B, 0, 0))
        assert (state.present.members, state.present.joined, state.present.is_last) == ((A, B, C), (B,), False)

    def test_wait_for_as_many_as_they_lack(self) -> None:
        state = FEW.lose(B).lose(C).leave(left(A)).leave(left(C, 0, 0))
        assert state.present.number == 1
        assert state.leave(left(B, 0, 0)).present.members == (A, B, C)

    def test_store_what_they_have_where_nobody_comes(self) -> None:
        state = FEW.lose(B).leave(left(A, 6)).leave(left(C)).expect(more=False)
        assert (state.present.members, state.present.giver, state.present.is_last) == ((A, C), C, True)
        state = FEW.lose(B).expect(more=False).leave(left(A)).leave(left(C))
        assert state.present.is_last

    def test_store_it_again_where_one_is_lost_meanwhile_and_take_nobody_in(self) -> None:
        state = FEW.lose(B).leave(left(A)).leave(left(C)).expect(more=False).leave(left(B, 0, 0))
        state = state.lose(C).leave(left(A, generation=2, takes_in=False))
        assert (state.present.number, state.present.members, state.present.is_last) == (3, (A,), True)

    def test_go_on_where_one_comes_after_all_before_they_have_stored_it(self) -> None:
        state = FEW.lose(B).leave(left(A)).expect(more=False).expect(more=True).leave(left(C)).leave(left(B, 0, 0))
        assert (state.present.members, state.present.is_last) == ((A, B, C), False)

    def test_may_evaluate_and_get_no_rows_to_train(self) -> None:
        state = FEW.lose(B).leave(left(A, takes_in=False)).leave(left(C))
        assert state.present.members == (A, C)
        state = state.regrouped(stands(A, (0, 4)))
        told = state.refuses(asks(A, 2))
        assert told is not None
        assert told.is_early, "the other one is not given its result yet"
        state = state.regrouped(stands(C, (0, 4)))
        assert state.refuses(asks(A, 2).model_copy(update={"stream": Stream.VALIDATION})) is None
        told = state.refuses(asks(A, 2))
        assert told is not None
        assert told.is_over
        state = state.leave(left(A, generation=2)).leave(left(C, generation=2))
        assert (state.present.number, state.parted) == (2, ())
        assert state.leave(left(B, 0, 0)).present.members == (A, B, C)
        assert state.expect(more=False).present.is_last

    def test_are_not_those_of_a_gang_that_is_content_with_them(self) -> None:
        state = Generations.first((A, B, C), least=2).lose(B).expect(more=False).leave(left(A)).leave(left(C))
        assert (state.present.members, state.present.is_last) == ((A, C), False)


class TestANodeIsFruitful:
    """Else it is given up: FRUITLESS of its trainers in a row, with which no update was made."""

    def test_once_an_update_is_made_with_it(self) -> None:
        members = {node: Trainer(node, "a", "h", heard_s=0.0, moved_s=0.0) for node in (A, B, C)}
        reporters = Reporters(members, Start(outlives_losses=True), lambda: 0.0)
        account = EpochAccount(epoch=0, planned=20, nodes=3)

        def follow(step: int, number: int) -> None:
            """B is lost, its successor joins, and all stand at a step."""
            reporters.lose(B, LOST, members)
            members[B] = members[B].successor("a", "h", "", 0.0)
            reporters.left(left(B, 0, 0), members)
            for node in (A, C):
                reporters.left(left(node, step, number), members)
            for node in (A, B, C):
                stand = stands(node, (0, step), generation=number + 1).model_copy(update={"step": step})
                reporters.regrouped(stand, members, lambda epoch: account)

        follow(step=3, number=1)
        assert reporters.fruitful(B) == 0
        follow(step=3, number=2)
        assert reporters.fruitful(B) == 0, "its first successor took part in no update"
        follow(step=4, number=3)
        assert reporters.fruitful(B) == 2


class TestMembersThatWait:
    def test_are_woken_by_a_loss_a_new_generation_and_its_first_share_and_by_nothing_else(self) -> None:
        members = {node: Trainer(node, "a", "h", heard_s=0.0, moved_s=0.0) for node in (A, B, C)}
        reporters = Reporters(members, Start(outlives_losses=True), lambda: 0.0)
        turns = [reporters.turns.read()]

        def has_turned() -> bool:
            turns.append(reporters.turns.read())
            return turns[-1] > turns[-2]

        reporters.left(left(A), members)
        assert not has_turned()
        reporters.lose(B, LOST, members)
        assert has_turned(), "who waits for rows waits in vain"
        reporters.left(left(A), members)
        assert not has_turned()
        reporters.left(left(C), members)
        assert has_turned()
        for node in (A, C):
            assert not has_turned()
            reporters.regrouped(stands(node, (0, 4)), members, lambda epoch: EpochAccount(epoch, planned=20, nodes=3))
        assert has_turned()


class TestRows:
    def test_are_dealt_once_all_stand_where_all_do(self) -> None:
        assert GANG.refuses(asks(A, 1)) is None
        state = GANG.lose(B)
        told = state.refuses(asks(A, 1))
        assert told is not None
        assert told.is_over
        state = state.leave(left(A)).leave(left(C)).regrouped(stands(A, (0, 4)))
        told = state.refuses(asks(A, 2))
        assert told is not None
        assert told.is_early
        assert state.regrouped(stands(C, (0, 4))).refuses(asks(A, 2)) is None

    def test_that_members_tell_differently_are_a_defect_that_is_named(self) -> None:
        state = GANG.lose(B).leave(left(A)).leave(left(C)).regrouped(stands(A, (0, 4))).regrouped(stands(C, (0, 5)))
        with pytest.raises(RowAccountingError, match="generation 2 of the gang does not stand at one place"):
            _ = state.stood

    def test_of_an_epoch_that_only_one_has_not_left_are_all_trained(self) -> None:
        state = GANG.lose(B).leave(left(A, 12)).leave(left(C, 11))
        next_epoch = stands(A).model_copy(update={"epoch": 1, "rows_aside": 0})
        stood = state.regrouped(next_epoch).regrouped(stands(C, (0, 20))).stood
        assert stood is not None
        assert (stood.epoch, stood.is_complete, stood.done) == (0, True, ((0, 20),))
        with pytest.raises(RowAccountingError, match="does not stand at one place"):
            _ = state.regrouped(next_epoch.model_copy(update={"epoch": 2})).regrouped(stands(C, (0, 20))).stood

    def test_go_on_behind_those_that_all_have_trained_in_the_attempt_and_before(self) -> None:
        state = GANG.lose(B).leave(left(A)).leave(left(C)).regrouped(stands(A, (4, 9))).regrouped(stands(C, (4, 9)))
        account = EpochAccount(epoch=0, planned=20, nodes=3, before=2)
        stood = state.stood
        assert stood is not None
        start = Start(Cursor(epoch=0, done=((0, 2),)))
        assert stood.settle(start, account, {A: 2, B: 1, C: 2}, nodes=2) == Cursor(epoch=0, done=((0, 2), (4, 9)))
        assert (account.nodes, account.before, account.aside_before, account.rows_of(B)) == (2, 7, 1, 1)

    def test_of_an_epoch_that_has_ended_after_another_loss_in_it_are_those_of_the_book_alone(self) -> None:
        account = EpochAccount(epoch=0, planned=20, nodes=3)
        start = Start(Cursor(epoch=0, done=((0, 2),)), rows_aside=1)
        Stood(0, False, ((2, 9),), 1).settle(start, account, {A: 3, B: 2, C: 2}, nodes=2)
        Stood(0, True, ((2, 20),), 2).settle(start, account, {A: 6, C: 5}, nodes=1)
        assert (account.fed, account.trained, account.aside, account.is_wrong) == (20, 17, 3, False)

    def test_of_an_epoch_that_has_ended_are_those_of_the_book(self) -> None:
        whole = stands(A, (0, 20), is_complete=True), stands(C, (0, 20))
        state = GANG.lose(B).leave(left(A)).leave(left(C))
        for told in whole:
            state = state.regrouped(told)
        account = EpochAccount(epoch=0, planned=20, nodes=3)
        stood = state.stood
        assert stood is not None
        assert stood.settle(Start(), account, {}, nodes=2) == Cursor(epoch=1)
        assert (account.fed, account.trained, account.aside, account.complete, account.is_wrong) == (
            20,
            19,
            1,
            True,
            False,
        )
