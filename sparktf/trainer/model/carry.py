"""Carries weights from one model to another: by name and shape, and tables by the entries of their vocabularies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sparktf.errors import ModelContractError
from sparktf.results.carried import Carried, CarriedVariable
from sparktf.trainer.model.averages import begin_averages
from sparktf.trainer.model.entries import Moves, Vocabulary, listed, moves
from sparktf.trainer.model.lookups import Fed, fed_tables, lookups_of, same_vocabularies, tables_of, vocabulary_of
from sparktf.trainer.model.said import first_line
from sparktf.trainer.model.table_rows import ModelPart, copy_rows, copy_whole, model_parts
from sparktf.trainer.model.trackables import value_of
from sparktf.trainer.model.variable_names import VariableNames

_KEY = "train.init_tables"


class Side(NamedTuple):
    """One of the two models."""

    model: Any
    x: Callable[[], Any] | None  # Returns its inputs; None if they are unknown
    assets: Mapping[str, Any]  # The result of its `prepare`


class RowsOf(NamedTuple):
    """The meaning of a table's rows."""

    vocabulary: Vocabulary | None = None  # Their vocabulary; None if they have none, or are computed from several
    computed_of: tuple[Vocabulary | None, ...] = ()  # The vocabularies that they are computed from
    why: str = ""  # The reason why the meaning is unknown

    @property
    def is_known(self) -> bool:
        """Whether it can be compared with another one."""
        return not self.why


class Decision(NamedTuple):
    """The source of one part: a part of the other model, None for a new one; with the `moves` of a table's rows."""

    ours: ModelPart
    theirs: ModelPart | None = None
    moves: Moves | None = None
    why: str = ""

    def told(self) -> CarriedVariable:
        """Returns the decision for the result."""
        name, shape = self.ours.name, self.ours.shape
        if self.theirs is None:
            return CarriedVariable(name=name, shape=shape, how="new", why=self.why)
        if self.moves is None:
            return CarriedVariable(name=name, shape=shape, how="kept")
        _, _, kept, new, left = self.moves
        return CarriedVariable(name=name, shape=shape, how="entries", kept=kept, new=new, left=left)


class Vocabularies:
    """The vocabularies of a model's tables."""

    def __init__(self, side: Side, named: Mapping[str, str]) -> None:
        """Traces the model; `named` is `train.init_tables`."""
        names = VariableNames(side.model)
        self._named = named
        self._assets = side.assets
        self._names = names
        self._lookups = {names.of_layer(lookup): lookup for lookup in lookups_of(side.model)}
        self._fed: Mapping[int, Fed] | None = {}
        self._why_unknown = ""
        if self._lookups:
            self._fed, self._why_unknown = (None, "") if side.x is None else _traced(side.model, side.x)

    def rows_of(self, part: ModelPart) -> RowsOf:
        """Returns the meaning of a table's rows."""
        layer, rows = part.layer, part.shape[0]
        asked = self._named.get(self._names.of_layer(layer))
        if asked is not None:
            found = self._of_name(asked, rows)
            return RowsOf(found, why="" if found else f"{_KEY}: {asked} is no vocabulary of its {rows} rows there")
        if self._fed is None:
            return RowsOf(why=f"the vocabulary of its rows is not known there{self._why_unknown}: name it in {_KEY}")
        fed = self._fed.get(id(layer), Fed())
        if not fed.lookups:
            return RowsOf()
        vocabularies = tuple(vocabulary_of(lookup) for lookup in fed.lookups)
        first = vocabularies[0]
        if fed.plainly and len(vocabularies) == 1 and first is not None and first.size <= rows:
            return RowsOf(first)
        return RowsOf(computed_of=vocabularies)

    def check(self, tables: Sequence[Any]) -> None:
        """Checks that all names are those of tables and vocabularies.

        Raises:
            ModelContractError: one is not; lists the known ones.
        """
        known = {self._names.of_layer(layer): layer for layer in tables}
        for table, asked in self._named.items():
            if table not in known:
                raise ModelContractError(
                    f"{_KEY}: the model has no embedding layer '{table}' (it has: {', '.join(sorted(known)) or 'none'})"
                )
            rows = int(sum(int(shard.shape[0]) for shard in known[table].weights))
            if self._of_name(asked, rows) is None:
                there = sorted([*self._assets, *self._lookups])
                raise ModelContractError(
                    f"{_KEY}.{table}: {asked} is neither a list of at most {rows} entries that prepare returns, nor a "
                    f"lookup layer of the model (there are: {', '.join(there) or 'none'})"
                )

    def _of_name(self, asked: str, rows: int) -> Vocabulary | None:
        if asked in self._lookups:
            found = vocabulary_of(self._lookups[asked])
            return found if found is None or found.size <= rows else None
        asset: Any = self._assets.get(asked)
        if asset is None:
            asset = self._assets
            for key in asked.split("."):
                asset = asset.get(key) if isinstance(asset, Mapping) else None
        return None if asset is None else listed(asset, rows)


def _traced(model: Any, x: Callable[[], Any]) -> tuple[Mapping[int, Fed] | None, str]:
    """Returns the inputs of the model's tables; None, and why, if the model cannot be called."""
    try:
        return fed_tables(model, x), ""
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything
        return None, f" (calling its model fails: {type(error).__name__}: {first_line(error)})"


def decide(ours: Side, theirs: Side, named: Mapping[str, str]) -> list[Decision]:
    """Returns the source of each part of our model; `named` is `train.init_tables`.

    Raises:
        ModelContractError: it names no table of our model, or no vocabulary.
    """
    here, there = Vocabularies(ours, named), Vocabularies(theirs, named)
    here.check(tables_of(ours.model))
    known = {part.name: part for part in model_parts(theirs.model)}
    return [_decided(part, known.get(part.name), here, there) for part in model_parts(ours.model)]


def _decided(ours: ModelPart, theirs: ModelPart | None, here: Vocabularies, there: Vocabularies) -> Decision:
    if theirs is None:
        return Decision(ours, why="the other model has no variable of this name")
    shapes = f"{list(ours.shape)} here, {list(theirs.shape)} there"
    if ours.layer is not None and theirs.layer is not None:
        if ours.shape[1:] != theirs.shape[1:]:
            return Decision(ours, why=f"its shape differs: {shapes}")
        mine, other = here.rows_of(ours), there.rows_of(theirs)
        if mine.vocabulary is not None and other.vocabulary is not None:
            return Decision(ours, theirs, moves(mine.vocabulary, other.vocabulary))
        if why := mine.why or other.why or _unlike(mine, other):
            return Decision(ours, why=why)
    if ours.shape != theirs.shape:
        return Decision(ours, why=f"its shape differs: {shapes}")
    return Decision(ours, theirs)


def _unlike(ours: RowsOf, theirs: RowsOf) -> str:
    """Returns why rows without a single vocabulary differ in meaning; "" if they may be the same."""
    if (ours.vocabulary is None) != (theirs.vocabulary is None):
        return f"its rows are entries of a vocabulary in one model and not in the other: see {_KEY}"
    if not same_vocabularies(ours.computed_of, theirs.computed_of):
        return f"its rows are computed from other vocabularies there: see {_KEY}"
    return ""


def carry(ours: Side, theirs: Side, named: Mapping[str, str], *, source: str, optimizer: bool) -> Carried:
    """Carries over everything that fits; returns a record of it.

    Args:
        source: Name of the other model.
        optimizer: Carry the optimizer's state, too, if its class is the same.

    Raises:
        ModelContractError: the two have nothing in common, or `named` does not fit our model.
    """
    decisions = decide(ours, theirs, named)
    taken = {decision.theirs.name for decision in decisions if decision.theirs is not None}
    left = tuple(part.name for part in model_parts(theirs.model) if part.name not in taken)
    if not taken:
        raise ModelContractError(f"train.init_from: {_nothing_fits(decisions, left, source)}")
    for decision in decisions:
        _apply(decision, decision.ours.variables, decision.theirs.variables if decision.theirs else ())
    begin_averages(ours.model)  # of new variables, and of all if no optimizer state is carried
    done = optimizer and _carry_optimizer(ours.model, theirs.model, decisions)
    return Carried(source=source, optimizer=done, variables=tuple(d.told() for d in decisions), left=left)


def _apply(decision: Decision, target: Sequence[Any], source: Sequence[Any]) -> None:
    if decision.theirs is None:
        return
    if decision.moves is None:
        copy_whole(target, source)
    else:
        copy_rows(target, source, decision.moves.to, decision.moves.source)


def _carry_optimizer(ours: Any, theirs: Any, decisions: Sequence[Decision]) -> bool:
    """Carries the optimizer's state; returns whether there was one."""
    if getattr(theirs, "optimizer", None) is None:
        return False
    mine, other = OptimizerState(ours), OptimizerState(theirs)
    if mine.kind != other.kind or not other.iterations:
        return False
    known = other.families()
    for name, family in mine.families().items():
        for decision in decisions if name in known else ():
            target = mine.slots(family, decision.ours.variables)
            source = other.slots(known[name], decision.theirs.variables) if decision.theirs else None
            if target is not None and source is not None:
                _apply(decision, target, source)
    numbers = other.numbers()
    for name, number in mine.numbers().items():
        if name in numbers:
            copy_whole([number], [numbers[name]])
    return True


def _nothing_fits(decisions: Sequence[Decision], theirs: Sequence[str], source: str) -> str:
    if alike := [decision for decision in decisions if decision.ours.name in theirs]:
        whys = "; ".join(dict.fromkeys(f"{decision.ours.name}: {decision.why}" for decision in alike[:2]))
        return f"none of the model's {len(alike)} variables that {source} has by name can be taken over: {whys}"
    return (
        f"the model has no variable in common with {source}, which has {_some(theirs)}; the model has "
        f"{_some([decision.ours.name for decision in decisions])}: name its layers alike, or leave init_from out"
    )


def _some(names: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(names[:most]) or "none"
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


_NOT_SLOTS = {"_trainable_variables", "_variables", "_build_variables"}
_NOT_STATE = {"_learning_rate", "_current_learning_rate"}
"""The learning rate is a setting, not state."""


class OptimizerState:
    """The state of a compiled model's optimizer: slots for each weight, by the optimizer's names, and scalars."""

    def __init__(self, model: Any) -> None:
        """Reads no value."""
        self._optimizer = model.optimizer
        self._places = {id(variable): place for place, variable in enumerate(model.trainable_variables)}

    @property
    def kind(self) -> str:
        """The name of its class."""
        return type(self._optimizer).__name__

    @property
    def iterations(self) -> int:
        """The updates counted so far."""
        return int(value_of(self._optimizer.iterations))

    def families(self) -> dict[str, list[Any]]:
        """Returns lists of slots, one for each trained weight, by the optimizer's own names."""
        return {
            name: list(value)
            for name, value in vars(self._optimizer).items()
            if name not in _NOT_SLOTS
            and isinstance(value, list)
            and len(value) == len(self._places)
            and all(slot is None or _is_variable(slot) for slot in value)
        }

    def slots(self, family: Sequence[Any], variables: Sequence[Any]) -> list[Any] | None:
        """Returns a family's slots of some weights; None if one is missing or has another shape."""
        places = [self._places.get(id(variable)) for variable in variables]
        found = [None if place is None else family[place] for place in places]
        if any(slot is None or slot.shape != v.shape for slot, v in zip(found, variables, strict=True)):
            return None
        return found

    def numbers(self) -> dict[str, Any]:
        """Returns the scalar variables, by the optimizer's own names."""
        return {
            name: value
            for name, value in vars(self._optimizer).items()
            if name not in _NOT_STATE and _is_variable(value) and not tuple(value.shape)
        }


def _is_variable(value: Any) -> bool:
    return hasattr(value, "assign") and hasattr(value, "shape")
