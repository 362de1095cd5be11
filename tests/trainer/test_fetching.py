"""How the coordinator of asynchronous training comes by the results of its workers."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor

import pytest
from trainer import fetched

PASSING = ["UnavailableError", "AbortedError", "InvalidArgumentError"]


def test_a_result_that_a_lost_worker_had_is_asked_for_until_it_is_made_again(elsewhere: ProcessPoolExecutor) -> None:
    assert elsewhere.submit(fetched.fetched, PASSING).result() == ("rows", 0)


@pytest.mark.parametrize("passing", PASSING)
def test_what_the_run_has_failed_with_is_raised_in_place_of_what_a_result_lacks(
    passing: str, elsewhere: ProcessPoolExecutor
) -> None:
    assert elsewhere.submit(fetched.fetched, [passing], "NotFoundError").result() == ("NotFoundError", 0)


def test_a_result_that_is_never_made_again_is_given_up(elsewhere: ProcessPoolExecutor) -> None:
    assert elsewhere.submit(fetched.fetched, ["UnavailableError"] * 9, "", 0.25).result()[0] == "UnavailableError"


def test_an_error_that_does_not_pass_is_raised_at_once(elsewhere: ProcessPoolExecutor) -> None:
    assert elsewhere.submit(fetched.fetched, ["CancelledError"] * 2).result() == ("CancelledError", 1)


def test_an_execution_holds_up_none_that_ends_before_it(elsewhere: ProcessPoolExecutor) -> None:
    assert elsewhere.submit(fetched.executed, ["UnavailableError"] * 3, []).result() == ["1", "0"]


def test_a_failure_is_raised_although_what_was_cancelled_for_it_is_heard_before(elsewhere: ProcessPoolExecutor) -> None:
    came = elsewhere.submit(fetched.executed, ["CancelledError"], ["UnavailableError", "NotFoundError"]).result()
    assert came == ["NotFoundError"]
    assert elsewhere.submit(fetched.executed, ["CancelledError"]).result() == ["CancelledError"]
