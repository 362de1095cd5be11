"""What dynamic allocation refuses, and with which setting."""

from __future__ import annotations

import pytest

from sparktf.driver.spark.allocation import check_allocation, check_outlives_tasks, is_dynamic
from sparktf.errors import PreflightError

_ON = {"spark.dynamicAllocation.enabled": "true"}
_MOST = "spark.dynamicAllocation.maxExecutors"


@pytest.mark.parametrize("settings", [{}, _ON, {**_ON, _MOST: "4"}, {_MOST: "1"}])
def test_a_gang_that_may_come_together_is_not_refused(settings: dict[str, str]) -> None:
    check_allocation(settings, 4)


def test_fewer_executors_than_nodes_are_refused_with_the_setting() -> None:
    with pytest.raises(
        PreflightError, match=rf"^4 nodes need as many executors, but {_MOST} is 3: set it to 4 or more"
    ):
        check_allocation({**_ON, _MOST: "3"}, 4)


def test_nodes_that_outlive_their_tasks_are_refused() -> None:
    check_outlives_tasks({})
    with pytest.raises(PreflightError, match=r"set spark\.dynamicAllocation\.enabled=false"):
        check_outlives_tasks(_ON)


def test_the_other_packages_cluster_is_refused() -> None:
    with pytest.raises(PreflightError, match=r"set spark\.dynamicAllocation\.enabled=false"):
        check_allocation(_ON, 2, engine="tensorflowonspark")


def test_it_is_off_by_default_and_in_any_case_of_letters() -> None:
    assert not is_dynamic({})
    assert is_dynamic({"spark.dynamicAllocation.enabled": "TRUE"})
