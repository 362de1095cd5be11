"""The life of a parameter server: it holds variables for whoever connects, and knows nothing of them."""

from __future__ import annotations

from sparktf.trainer.node.place import Place
from sparktf.trainer.parameter_server.listening import listen, ready


def serve(place: Place) -> None:
    """Serves until the order to stop, which ends the process."""
    server = listen(place)
    ready(place)
    place.enter("serving")
    place.leave()
    del server  # until here, it must live
