"""Sums of an exchange in a traced update: TensorFlow reads them where they are, and what it keeps of them stays."""

from __future__ import annotations

import importlib
import os
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trainer.local_gang import PROCESSES, keep_files_in

from sparktf.trainer.sync.exchange.linked import LinkedExchange

UPDATES = 40


def one_thread(folder: str) -> None:
    keep_files_in(folder)
    os.environ["TF_NUM_INTEROP_THREADS"] = "1"


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessPoolExecutor]:
    """A process whose TensorFlow has one thread for all operations."""
    folder = str(tmp_path_factory.mktemp("narrow"))
    with ProcessPoolExecutor(1, mp_context=PROCESSES, initializer=one_thread, initargs=(folder,)) as pool:
        yield pool


def kept_of_sums(size: int) -> tuple[list[float], int]:
    """Makes updates that keep a sum in a variable, one computed in its place in another, and their total in a third.

    Returns the values of all in the end, and the memory that the last half of the updates has added.
    """
    tf = importlib.import_module("tensorflow")
    gradients = importlib.import_module("sparktf.trainer.sync.gradients")
    exchange = LinkedExchange(0, 1, 0, {}, attempt=1)
    total = gradients.ExchangeSum(exchange)
    last, square, squares = (tf.Variable(tf.zeros(size)) for _ in range(3))

    @tf.function  # type: ignore[untyped-decorator]
    def updates(first: Any, end: Any) -> Any:
        def update(k: Any) -> Any:
            _, summed = total([tf.zeros(1), tf.fill([size], tf.cast(k, tf.float32))])
            last.assign(summed)
            square.assign(tf.square(summed))
            squares.assign(squares + tf.square(summed))
            return k + 1

        return tf.while_loop(lambda k: k < end, update, [first])

    tracemalloc.start()
    updates(tf.constant(0), tf.constant(UPDATES // 2))
    held = tracemalloc.get_traced_memory()[0]
    updates(tf.constant(UPDATES // 2), tf.constant(UPDATES + 1))
    grown = tracemalloc.get_traced_memory()[0] - held
    tracemalloc.stop()
    for _ in range(3):  # evaluations
        exchange.sum([np.zeros(1, np.float32), np.full(size, -1, np.float32)])
    return [value for variable in (last, square, squares) for value in np.unique(variable.numpy()).tolist()], grown


@pytest.mark.parametrize("size", [5_000, 300_000], ids=["packed with others", "by itself"])
def test_what_is_kept_of_a_sum_stays_whatever_is_summed_after_it(size: int, narrow: ProcessPoolExecutor) -> None:
    found, grown = narrow.submit(kept_of_sums, size).result()
    assert found == [UPDATES, UPDATES**2, sum(k * k for k in range(UPDATES + 1))]
    assert grown < 2 * 4 * size, "buffers are used again"


def said_by_a_node_of_two_devices() -> list[list[float]]:
    """Returns what comes of a node's own values over TensorFlow's collectives: summed, gathered, from the leader."""
    make_strategy = importlib.import_module("sparktf.trainer.sync.strategy")
    exchange = make_strategy.CollectiveExchange(make_strategy.make_strategy(1, 2), 0, 1, 0)
    values = np.array([3.0, 5.0], np.float32)
    [summed], [gathered] = exchange.sum([values]), exchange.gather(values)
    [told] = exchange.from_leader([values])
    return [array.tolist() for array in (summed, gathered, told)]


def test_what_a_node_says_counts_once_however_many_devices_it_has(tmp_path: Path) -> None:
    with ProcessPoolExecutor(
        1, mp_context=PROCESSES, initializer=keep_files_in, initargs=(str(tmp_path),)
    ) as not_begun:
        assert not_begun.submit(said_by_a_node_of_two_devices).result() == [[3.0, 5.0]] * 3
