"""The life of a parameter server: it holds variables for whoever connects, and moves the files of its own.

What it holds, and when that is written, it is told by the coordinator.
"""

from __future__ import annotations

from sparktf.trainer.node.place import Place
from sparktf.trainer.parameter_server.checkpoint.shard import Shard
from sparktf.trainer.parameter_server.listening import listen, ready
from sparktf.trainer.parameter_server.meter import ProcessMeter


def serve(place: Place) -> None:
    """Serves until the order to stop, which ends the process."""
    shard = Shard(place)
    shard.register()
    server = listen(place)
    ready(place)
    place.enter("serving")
    place.measure(ProcessMeter())
    place.leave()
    del server, shard  # until here, they must live
