"""The table of what trainers do."""

from __future__ import annotations

import gc
from typing import get_args

import pytest

from sparktf.config.strategies import Strategy
from sparktf.errors import LifecycleError
from sparktf.topology import Role
from sparktf.trainer.life import LIVES, life_of
from sparktf.trainer.preload import without_collector


def test_every_strategy_has_a_life_for_each_of_its_roles() -> None:
    assert {strategy for strategy, role in LIVES if role is Role.WORKER} == set(get_args(Strategy))
    assert {strategy for strategy, role in LIVES if role is Role.PS} == {"parameter_server"}
    assert {strategy for strategy, role in LIVES if role is Role.CHIEF} == {"parameter_server"}
    assert {strategy for strategy, role in LIVES if role is Role.EVALUATOR} == set(get_args(Strategy))


@pytest.mark.parametrize("role", [Role.CHIEF, Role.PS])
def test_a_role_that_a_strategy_does_not_have_is_refused_by_name(role: Role) -> None:
    with pytest.raises(LifecycleError, match=rf"strategy: single has no role {role.value}$"):
        life_of("single", role)


def test_what_is_imported_without_the_collector_stays_out_of_its_way_and_it_works_again_even_after_a_failure() -> None:
    frozen = gc.get_freeze_count()
    try:
        with pytest.raises(ImportError), without_collector():
            assert not gc.isenabled()
            raise ImportError("broken")
        assert gc.isenabled()
        assert gc.get_freeze_count() > frozen
    finally:
        gc.unfreeze()
