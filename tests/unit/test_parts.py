"""How the variables of parameter servers are cut into the data files of a checkpoint."""

from __future__ import annotations

import random
from collections import defaultdict

from sparktf.trainer.parameter_server.checkpoint.parts import OwnedVariable, Part, parts_of, slice_spec

LIMIT = 1000


def held(key: str, *shape: int, server: int = 0, family: str = "weights") -> OwnedVariable:
    return OwnedVariable(key, server, family, shape, 4)


def test_small_variables_share_a_part_and_rows_of_a_large_one_are_parts_of_their_own() -> None:
    variables = [held("bias", 100), held("table", 101, 10), held("kernel", 10, 10), held("scale"), held("more", 100)]
    assert parts_of(variables, LIMIT) == [
        Part(0, ("table",), 1000, (0, 25), (101, 10)),
        Part(0, ("table",), 1000, (25, 50), (101, 10)),
        Part(0, ("table",), 1000, (50, 75), (101, 10)),
        Part(0, ("table",), 1000, (75, 100), (101, 10)),
        Part(0, ("table",), 40, (100, 101), (101, 10)),
        Part(0, ("bias", "kernel", "scale"), 804),
        Part(0, ("more",), 400),
    ]


def test_weights_and_slots_and_what_other_servers_hold_are_in_different_files() -> None:
    variables = [
        held("a", 5),
        held("a/m", 5, family="slots"),
        held("b", 5, server=1),
        held("c", 5),
        held("b/m", 5, server=1, family="slots"),
    ]
    assert [(part.server, part.keys) for part in parts_of(variables, LIMIT)] == [
        (0, ("a", "c")),
        (0, ("a/m",)),
        (1, ("b",)),
        (1, ("b/m",)),
    ]


def test_every_value_is_in_one_part_and_no_part_is_larger_than_it_may_be() -> None:
    draw = random.Random(1)
    for _ in range(200):
        shapes = [tuple(draw.randint(1, 40) for _ in range(draw.randint(0, 3))) for _ in range(draw.randint(0, 8))]
        variables = [held(str(i), *shape, server=draw.randint(0, 2)) for i, shape in enumerate(shapes)]
        covered = defaultdict(list)
        for part in parts_of(variables, LIMIT):
            rows = part.rows
            assert part.nbytes <= LIMIT or (rows is not None and rows[1] - rows[0] == 1)
            for key in part.keys:
                variable = variables[int(key)]
                assert variable.server == part.server
                covered[key].append(rows or (0, variable.shape[0] if variable.shape else 1))
            whole = sum(variables[int(key)].nbytes for key in part.keys)
            assert part.nbytes == (
                whole if rows is None else (rows[1] - rows[0]) * variables[int(part.keys[0])].row_nbytes
            )
        for variable in variables:
            ends = [0]
            for start, stop in covered[variable.key]:
                assert start == ends[-1]
                ends.append(stop)
            assert ends[-1] == (variable.shape[0] if variable.shape else 1)


def test_rows_are_named_as_tensorflow_does() -> None:
    assert slice_spec((101, 10), (25, 50)) == "101 10 25,25:0,10"
    assert slice_spec((101,), (100, 101)) == "101 100,1"
    assert slice_spec((9, 2, 3), (0, 4)) == "9 2 3 0,4:0,2:0,3"
