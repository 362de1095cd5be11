"""TensorFlowOnSpark's inside: names that a program may import, and whose use says what to use in their place."""

from __future__ import annotations

from typing import Any, NoReturn

from sparktf.errors import ConfigError

_RESERVING = (
    "nodes register at sparktf's own server, which unpickles nothing; DataFeed.terminate() ends a feed early, and "
    "TFCluster.shutdown() a cluster"
)
_RUNNING = "call TFCluster.run, and train, inference and shutdown of the cluster that it returns"
_FED = "a function takes its rows by ctx.get_data_feed(), and answers them by its batch_results()"
_GRAPHS = "it belongs to TensorFlow 1; tf.saved_model.load returns a model with its signatures"
_NUMBER = "ctx.executor_id is the number of a function's node"
_INSTEAD = {
    "reservation": {
        **dict.fromkeys(("BUFSIZE", "MAX_RETRIES", "TFOS_SERVER_HOST", "TFOS_SERVER_PORT"), _RESERVING),
        **dict.fromkeys(("Client", "MessageSocket", "Reservations", "Server"), _RESERVING),
    },
    "TFSparkNode": dict.fromkeys(("TFSparkNode", "inference", "run", "shutdown", "train"), _RUNNING),
    "TFCluster": {"server": _RESERVING},
    "TFManager": {"connect": _FED},
    "TFNode": dict.fromkeys(("batch_results", "next_batch", "terminate"), _FED),
    "pipeline": {"get_meta_graph_def": _GRAPHS},
    "util": dict.fromkeys(("read_executor_id", "write_executor_id"), _NUMBER),
}
"""Module -> name -> what a program uses in its place."""


class InsideName:
    """A name of TensorFlowOnSpark's inside: it can be imported, and any use is an error that says so."""

    def __init__(self, name: str, instead: str) -> None:
        """Takes the name with its module, and what to use in its place."""
        self._name = name
        self._instead = instead

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises `ConfigError`."""
        raise self._error()

    def __getattr__(self, attribute: str) -> NoReturn:
        """Raises `ConfigError`; `AttributeError` for what Python itself asks an object for."""
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise self._error()

    def _error(self) -> ConfigError:
        return ConfigError(f"{self._name} is of TensorFlowOnSpark's inside, and not in sparktf: {self._instead}")


def inside_names(module: str) -> dict[str, InsideName]:
    """Returns the names of the inside that one of TensorFlowOnSpark's modules has."""
    return {name: InsideName(f"{module}.{name}", instead) for name, instead in _INSTEAD.get(module, {}).items()}
