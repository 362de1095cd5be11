"""Words of Keras's `fit` and `compile` that are no settings of a run, each with the one that is meant."""

from __future__ import annotations

_COMPILED = "compile the model with it, in the function that builds it"
_EVALUATED = "all held-out rows are evaluated after each epoch: leave it out"
_FED = "rows are read ahead anyway: leave it out"

INSTEAD = {
    "x": "give the rows as the first argument, and name their columns: inputs=['a', 'b']",
    "y": "name the column of the rows: targets='y'",
    "validation_split": "write validation={'fraction': 0.2}, which draws the rows",
    "validation_data": "write validation={'path': 'other rows'}, or validation={'fraction': 0.2}",
    "validation_freq": _EVALUATED,
    "validation_steps": _EVALUATED,
    "steps_per_epoch": "an epoch is all rows, each once; max_steps=100 ends the training after so many updates",
    "initial_epoch": "init_from=result goes on from a run's weights",
    "verbose": "progress is told as it comes: leave it out",
    "optimizer": _COMPILED,
    "learning_rate": _COMPILED,
    "loss": _COMPILED,
    "metrics": _COMPILED,
    "weighted_metrics": _COMPILED,
    "max_queue_size": _FED,
    "use_multiprocessing": _FED,
}
"""A word of Keras's -> what to write instead."""
