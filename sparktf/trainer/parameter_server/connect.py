"""The gang as TensorFlow sees it from its coordinator, and where the variables are put."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf


class Connection(NamedTuple):
    """What schedules functions on the workers, and has the variables on the parameter servers.

    Attributes:
        strategy: Variables are made in its scope.
        coordinator: Of the strategy.
        placement: Where they are put.
    """

    strategy: Any
    coordinator: Any
    placement: Placement


def connect(servers: int) -> Connection:
    """Connects to all workers and parameter servers of TF_CONFIG, for which it waits.

    It must come before any other TensorFlow work in the process.

    Args:
        servers: How many parameter servers there are.
    """
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer="grpc")
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    placement = Placement(strategy.extended, servers)
    return Connection(strategy, tf.distribute.coordinator.ClusterCoordinator(strategy), placement)


class Placement:
    """Puts each variable on the parameter server that holds the fewest bytes.

    TensorFlow takes them in turn, so that one server may hold a large table, and another one its bias. An optimizer's
    slots lie beside their variable wherever that is, and count.

    Attributes:
        nbytes: What each parameter server holds.
    """

    def __init__(self, extended: Any, servers: int) -> None:
        """Takes over from the strategy's own way.

        Args:
            extended: `strategy.extended`.
        """
        self.nbytes = [0] * servers
        self._extended = extended
        self._create, self._in_turn = extended._create_variable, extended._create_variable_round_robin
        extended._create_variable = self._counting
        extended._create_variable_round_robin = self._on_the_emptiest

    def _counting(self, *args: Any, **kwargs: Any) -> Any:
        variable = self._create(*args, **kwargs)
        server = tf.DeviceSpec.from_string(variable.device)
        if server.job == "ps":
            self.nbytes[server.task] += variable.shape.num_elements() * variable.dtype.size
        return variable

    def _on_the_emptiest(self, *args: Any, **kwargs: Any) -> Any:
        # The strategy takes the server of this number, modulo how many there are.
        self._extended._variable_count = self.nbytes.index(min(self.nbytes))
        return self._in_turn(*args, **kwargs)
