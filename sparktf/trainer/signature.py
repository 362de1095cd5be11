"""Describes a SavedModel's signature: `python -m sparktf.trainer.signature FOLDER NAME [TAG ...]`.

Prints a line of JSON: {"inputs": {name: [dtype, shape]}, "outputs": {name: [dtype, shape]}}, with null for unknown
sizes in shapes; or {"error": reason}.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from sparktf.told import typed_line_of_error
from sparktf.trainer.preload import complete_environment, put_off_rare, without_collector


def main() -> None:
    complete_environment()
    folder, name, *tags = sys.argv[1:]
    put_off_rare()
    with without_collector():
        import tensorflow as tf  # noqa: PLC0415 - it reads its environment when imported

    try:
        signatures = tf.saved_model.load(folder, tags=tags or None).signatures
    except Exception as error:  # noqa: BLE001 - the process's edge: the caller gets any error
        print(json.dumps({"error": typed_line_of_error(error)}))
        return
    if name not in signatures:
        print(json.dumps({"error": f"there is no signature {name!r}; there are {', '.join(map(str, signatures))}"}))
        return
    found = signatures[name]
    print(
        json.dumps({"inputs": _told(found.structured_input_signature[1]), "outputs": _told(found.structured_outputs)})
    )


def _told(specs: dict[str, Any]) -> dict[str, Any]:
    return {
        name: [spec.dtype.name, None if spec.shape.rank is None else spec.shape.as_list()]
        for name, spec in specs.items()
    }


if __name__ == "__main__":
    main()
