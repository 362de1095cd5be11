"""`python -m sparktf.trainer.evaluating REPORT`: evaluates a model on rows from its input, and reports.

The input is a line of JSON, then pieces of rows: eight bytes of length, and an Arrow stream. A length of 0 ends it.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from sparktf.config.load import parse_config
from sparktf.errors import EmptySourceError, ModelContractError
from sparktf.feature import FeedSpec
from sparktf.feed.arrays.columns import Columns
from sparktf.feed.arrays.convert import assemble
from sparktf.feed.arrays.row_group import RowGroup
from sparktf.trainer.preload import complete_environment, put_off_rare, without_collector
from sparktf.trainer.user_error import reported_error


def main() -> None:
    complete_environment()
    stream = sys.stdin.buffer
    told = json.loads(stream.readline())
    sys.path[:0] = [path for path in told["path"] if path not in sys.path]
    found: dict[str, Any] = {"error": None, "values": {}}
    try:
        found["values"] = evaluated(told, stream)
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything
        found["error"] = reported_error(error)
    Path(sys.argv[1]).write_text(json.dumps(found), encoding="utf-8")


def evaluated(told: dict[str, Any], stream: IO[bytes]) -> dict[str, float]:
    """Returns the metrics of the model that `told` names on the rows of a stream.

    Raises:
        ModelContractError: it is not built by a `build(params, assets)`, or has other weights than its file.
        BadValueError: a value is not as in training.
        EmptySourceError: there is no row.
    """
    put_off_rare()
    with without_collector():
        from sparktf.trainer.model.evaluate import Evaluator  # noqa: PLC0415 - TensorFlow reads its environment
    from sparktf.trainer.model.exchange import ALONE  # noqa: PLC0415 - as above
    from sparktf.trainer.model.model import UserModel, is_low_level, load_function  # noqa: PLC0415 - as above

    config, spec = parse_config(told["config"]), FeedSpec.model_validate(told["spec"])
    function = load_function(config)
    if is_low_level(function):
        raise ModelContractError("evaluate needs a build(params, assets), and train(node) has no compiled model")
    model = UserModel(function, config, told["assets"], spec, trains=False)
    with warnings.catch_warnings():  # Keras warns of the optimizer's state, which is left out on purpose
        warnings.simplefilter("ignore", UserWarning)
        model.model.load_weights(told["file"])
    rows = ReceivedRows(stream, spec, tuple(told["names"]))
    evaluator = Evaluator(model, ALONE, config.train.validation_batch_size)
    evaluator.warm_up()
    values, count = evaluator.evaluate(rows)
    if not count:
        raise EmptySourceError("evaluate: the DataFrame has no rows")
    return values


class ReceivedRows:
    """The rows of a stream, as an evaluation takes them."""

    def __init__(self, stream: IO[bytes], spec: FeedSpec, names: tuple[str, ...]) -> None:
        """Takes the names of the stream's columns, in their order."""
        self._spec = spec
        self._names = names
        self._batches = self._read(stream)
        self._batch: pa.RecordBatch | None = None
        self._start = self._before = 0

    def next_rows(self, rows: int) -> Columns:
        """Returns up to this many rows, none at the end.

        Raises:
            BadValueError: a value is not as in training; names its row and column.
        """
        if self._batch is None or self._start == self._batch.num_rows:
            self._before += self._start
            self._batch, self._start = next(self._batches, None), 0
        if self._batch is None:
            return {}
        part = self._batch.slice(self._start, rows)
        first = self._before + self._start
        self._start += part.num_rows
        group = RowGroup(
            origin="the DataFrame",
            number=lambda row: first + row,
            columns={n: pa.chunked_array([c]) for n, c in zip(self._names, part.columns, strict=True)},
            rows=part.num_rows,
            fill_null=self._spec.fill_null,
        )
        arrays = {f.key: np.zeros((part.num_rows, *f.shape), f.numpy_dtype) for f in self._spec.features if f.is_array}
        return assemble(self._spec.features, [group], arrays)

    @staticmethod
    def _read(stream: IO[bytes]) -> Iterator[pa.RecordBatch]:
        while length := int.from_bytes(stream.read(8), "big"):
            with pa.ipc.open_stream(stream.read(length)) as reader:
                yield from reader


if __name__ == "__main__":
    main()
