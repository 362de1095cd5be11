"""Uses an exported model in a fresh process: `predict.py MODEL INPUTS.npz OUTPUTS.npz [MODULE...]`.

Its two forms must agree. Modules are imported for the layers that they register.
"""

from __future__ import annotations

import gc
import importlib
import sys
from pathlib import Path


def main(model: Path, inputs: Path, outputs: Path) -> None:
    """Writes the predictions of the SavedModel, by output name."""
    import keras
    import numpy as np
    import tensorflow as tf

    x = dict(np.load(inputs))
    saved = model / "saved_model"  # in a run's folder; where models are published, it is the folder itself
    serve = tf.saved_model.load(str(saved if saved.is_dir() else model)).signatures["serving_default"]
    served = {name: y.numpy() for name, y in serve(**{name: tf.constant(v) for name, v in x.items()}).items()}
    whole = keras.saving.load_model(model / "model.keras")
    predicted = whole.predict(next(iter(x.values())) if len(x) == 1 else x, verbose=0)
    np.testing.assert_allclose(predicted, next(iter(served.values())), rtol=1e-5, atol=1e-6)
    np.savez(outputs, **served)


if __name__ == "__main__":
    gc.disable()  # imports leave next to nothing for it
    for module in sys.argv[4:]:
        importlib.import_module(module)
    main(*map(Path, sys.argv[1:4]))
