"""TensorFlowOnSpark's Params, each in a class that a program's own stage can have too, and its arguments."""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from pyspark.ml.param import Param, Params, TypeConverters

from sparktf.compat.tensorflowonspark.tf_cluster import InputMode
from sparktf.errors import ConfigError

_Stage = TypeVar("_Stage", bound=type)


class TFTypeConverters:
    """Converters that Spark has not."""

    @staticmethod
    def toDict(value: Any) -> dict[str, str]:
        """Returns a dict as it is. Raises `TypeError` if it is none."""
        if not isinstance(value, dict):
            raise TypeError(f"must be a dict, not {type(value).__name__}")
        return value


_DICT = TFTypeConverters.toDict
_INT, _TEXT, _TRUTH = TypeConverters.toInt, TypeConverters.toString, TypeConverters.toBoolean


def _has(name: str, suffix: str, what: str, convert: Any) -> Callable[[_Stage], _Stage]:
    """Returns a decorator that gives a class a Param, with its setter and its getter.

    Args:
        suffix: Its name after `set` and `get`.
        what: Its description.
    """

    def set_param(self: Any, value: Any) -> Any:
        if name == "input_mode" and value != InputMode.SPARK:
            raise ConfigError("input_mode must be InputMode.SPARK, since Spark feeds a DataFrame")
        return self._set(**{name: value})

    def get_param(self: Any) -> Any:
        return self.getOrDefault(name)

    def give(cls: _Stage) -> _Stage:
        setattr(cls, name, Param(Params._dummy(), name, what, convert))
        setattr(cls, f"set{suffix}", set_param)
        setattr(cls, f"get{suffix}", get_param)
        return cls

    return give


@_has("batch_size", "BatchSize", "records of a batch", _INT)
class HasBatchSize(Params):
    """A stage with `batch_size`."""


@_has("cluster_size", "ClusterSize", "nodes of the cluster", _INT)
class HasClusterSize(Params):
    """A stage with `cluster_size`."""


@_has("epochs", "Epochs", "passes over the rows", _INT)
class HasEpochs(Params):
    """A stage with `epochs`."""


@_has("grace_secs", "GraceSecs", "seconds that nodes may still run after all rows are fed", _INT)
class HasGraceSecs(Params):
    """A stage with `grace_secs`."""


@_has("input_mapping", "InputMapping", "input column -> input tensor", _DICT)
class HasInputMapping(Params):
    """A stage with `input_mapping`."""


@_has("input_mode", "InputMode", "who reads the data: 1, Spark", _INT)
class HasInputMode(Params):
    """A stage with `input_mode`."""


@_has("master_node", "MasterNode", "name of the node that is chief", _TEXT)
class HasMasterNode(Params):
    """A stage with `master_node`."""


@_has("model_dir", "ModelDir", "where the function keeps its checkpoints", _TEXT)
class HasModelDir(Params):
    """A stage with `model_dir`."""


@_has("num_ps", "NumPS", "parameter servers", _INT)
@_has("driver_ps_nodes", "DriverPSNodes", "parameter servers run beside the driver", _TRUTH)
class HasNumPS(Params):
    """A stage with `num_ps` and `driver_ps_nodes`."""


@_has("output_mapping", "OutputMapping", "output tensor -> output column", _DICT)
class HasOutputMapping(Params):
    """A stage with `output_mapping`."""


@_has("protocol", "Protocol", "without effect: TensorFlow's gRPC", _TEXT)
class HasProtocol(Params):
    """A stage with `protocol`."""


@_has("readers", "Readers", "for the function", _INT)
class HasReaders(Params):
    """A stage with `readers`."""


@_has("steps", "Steps", "for the function", _INT)
class HasSteps(Params):
    """A stage with `steps`."""


@_has("tensorboard", "Tensorboard", "start TensorBoard", _TRUTH)
class HasTensorboard(Params):
    """A stage with `tensorboard`."""


@_has("tfrecord_dir", "TFRecordDir", "for the function", _TEXT)
class HasTFRecordDir(Params):
    """A stage with `tfrecord_dir`."""


@_has("export_dir", "ExportDir", "where the function exports a SavedModel", _TEXT)
class HasExportDir(Params):
    """A stage with `export_dir`."""


@_has("signature_def_key", "SignatureDefKey", "which signature of the SavedModel scores", _TEXT)
class HasSignatureDefKey(Params):
    """A stage with `signature_def_key`."""


@_has("tag_set", "TagSet", "tags of the SavedModel's graph, separated by commas", _TEXT)
class HasTagSet(Params):
    """A stage with `tag_set`."""


class Namespace:
    """Arguments by name, or as a command line has them."""

    argv: list[str] | None = None

    def __init__(self, d: Any) -> None:
        """Takes a dict, a list, or a Namespace, also one of argparse's. Raises `ConfigError` for anything else."""
        if isinstance(d, list):
            self.argv = d
        elif isinstance(d, Mapping):
            vars(self).update(d)
        elif isinstance(d, (argparse.Namespace, Namespace)):
            vars(self).update(vars(d))
        else:
            raise ConfigError(f"arguments must be a dict, a list or a Namespace, not {type(d).__name__}")

    def __iter__(self) -> Iterator[str]:
        return iter(self.argv or list(vars(self)))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (argparse.Namespace, Namespace)):
            return vars(self) == vars(other)
        return isinstance(other, list) and self.argv == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        if self.argv:
            return str(self.argv)
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in sorted(vars(self).items()))})"


class TFParams(Params):
    """A stage that hands arguments and Params to functions together."""

    args: Any = None

    def merge_args_params(self) -> Any:
        """Returns the arguments, with the Params among them."""
        merged = copy.copy(self.args)
        vars(merged).update({param.name: self.getOrDefault(param) for param in self.params})
        return merged
