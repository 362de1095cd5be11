"""A head that is one object in a real server of a store."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from object_stores import StoreServer

from sparktf.hadoop import HadoopConf
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.objects.object_storage import ObjectStorage
from sparktf.storage.transactions.head import Edition, HeadMovedError
from sparktf.storage.transactions.object_head import ObjectHead


def storage_of(server: StoreServer) -> ObjectStorage:
    storage = FileSystems(HadoopConf(properties=server.hadoop())).open(f"{server.root}/x")
    assert isinstance(storage, ObjectStorage)
    return storage


def test_of_many_that_swap_at_once_each_counts_on_and_none_is_lost_also_over_a_kill(server: StoreServer) -> None:
    path, each = f"{server.root}/heads/many", 8
    head = ObjectHead(storage_of(server), path)
    first = head.swap(head.read(), b"0 by nobody")
    assert head.read() == first == Edition(1, b"0 by nobody")

    def add_one(who: int) -> None:
        head, done = ObjectHead(storage_of(server), path), 0
        while done < each:
            read = head.read()
            count = int(read.content.partition(b" ")[0])
            with suppress(HeadMovedError):
                head.swap(read, f"{count + 1} by {who}.{done}".encode())
                done += 1
                if who == 0 and done == each // 2:
                    server.kill()
                    server.start()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(add_one, range(3)))
    number, content = ObjectHead(storage_of(server), path).read()
    assert content.startswith(f"{number - 1} by ".encode()), (number, content)
    # Who is told to have lost may have been first, and was followed before it looked again.
    assert number - 1 >= 3 * each


def test_who_was_frozen_since_it_read_swaps_nothing(server: StoreServer) -> None:
    storage, path = storage_of(server), f"{server.root}/heads/frozen"
    frozen, awake = ObjectHead(storage, path), ObjectHead(storage, path)
    read = frozen.read()
    awake.swap(awake.read(), b"first")
    with pytest.raises(HeadMovedError):
        frozen.swap(read, b"of one that was frozen")
    again = frozen.read()
    last = awake.swap(again, b"second")
    with pytest.raises(HeadMovedError):
        frozen.swap(again, b"of one that was frozen")
    assert frozen.read() == last == Edition(2, b"second")
