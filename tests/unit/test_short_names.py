"""Short names of principals, as Hadoop's `HadoopKerberosName` makes them of the same rules."""

from __future__ import annotations

import pytest

from sparktf.storage.short_names import short_name

RULES = r"""
RULE:[2:$1@$0](nn@R)s/.*/hdfs/
RULE:[1:$1@$0](etl-svc@R)s/.*/etl/
RULE:[1:$1](.*-adm)s/-adm$//
RULE:[1:$1@$0](.*@AD)s/@.*///L
RULE:[2:$1;$2](^.*;admin$)s/;admin$//
RULE:[3:$2-$3]
RULE:[1:$1](o.*)s/(o)(.)/$2$1/g
DEFAULT
"""


@pytest.mark.parametrize(
    ("principal", "user"),
    [
        ("alice@R", "alice"),
        ("alice", "alice"),  # as a proxy user's tokens name it
        ("nn/host@R", "hdfs"),
        ("nn/host@Q", "nn"),  # the rule is of another realm's
        ("etl-svc@R", "etl"),
        ("bob-adm@R", "bob"),
        ("CAROL@AD", "carol"),
        ("dora/admin@R", "dora"),
        ("a/b/c@R", "b-c"),
        ("onon@R", "nono"),
    ],
)
def test_the_first_rule_that_is_about_a_principal_names_it(principal: str, user: str) -> None:
    assert short_name(principal, RULES) == user


@pytest.mark.parametrize("rules", ["", "DEFAULT", "MIT rules of another kind", r"RULE:[1:$1](\p{Lower}+)s/a/b/"])
def test_without_a_rule_that_is_understood_it_is_the_first_part(rules: str) -> None:
    assert [short_name(name, rules) for name in ("alice@R", "nn/host@R")] == ["alice", "nn"]
