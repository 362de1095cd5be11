"""Which hosts to ask for executors on, and which nodes to keep: functions of where the data lies."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

HostNbytes = Mapping[str, Mapping[int, int]]
"""Host -> group of row groups that lie on the same hosts -> bytes."""

_GOOD_ENOUGH = 0.9
"""Present executors are kept while the gang is beside this fraction of the data that the best hosts would have."""

_ASKS = 2


class Request(NamedTuple):
    """A request for the cluster manager."""

    total: int  # Executors in all, including present ones
    hosts: tuple[str, ...]  # Preferred for the new ones


def request_for(host_nbytes: HostNbytes, nodes: int, readers: int, held: Sequence[str]) -> Request:
    """Returns the request, given the hosts of the executors that are there already.

    If these are too far from the data, the best hosts are all asked for, so that the gang can do without the others.

    Args:
        readers: How many of the nodes read data; the others may be anywhere.
    """
    missing = max(nodes - len(held), 0)
    hosts = best_hosts(host_nbytes, min(missing, readers), held)
    ideal = best_hosts(host_nbytes, readers, [])
    there = [*held, *hosts]
    beside = [there[i] for i in best_nodes(host_nbytes, there, readers)]
    if near(host_nbytes, beside) >= _GOOD_ENOUGH * near(host_nbytes, ideal):
        return Request(len(held) + missing, tuple(hosts))
    wanted = [host for host in ideal if host not in held]
    return Request(len(held) + max(len(wanted), missing), tuple(wanted))


def ask_beside(
    host_nbytes: HostNbytes,
    nodes: int,
    readers: int,
    held: Callable[[int], Sequence[str]],
    ask: Callable[[Request], None],
) -> int:
    """Asks for executors, and once more if too many of those that came are far from the data.

    YARN passes over a wanted host that is full, or only late with its heartbeat, for the next one.

    Args:
        readers: See `request_for`.
        held: Waits, within bounds, for the given number of executors; returns the hosts of all present then.

    Returns:
        How many executors there will be.
    """
    total = 0
    for _ in range(_ASKS):
        request = request_for(host_nbytes, nodes, readers, held(total))
        if request.total <= total:
            break
        ask(request)
        total = request.total
    return total


def best_hosts(host_nbytes: HostNbytes, count: int, held: Sequence[str]) -> list[str]:
    """Returns `count` hosts that, with those `held` already, hold as much of the data as few hosts can.

    Greedily, the host that adds most first; when none adds any, those that hold most; when all are taken, each a second
    time. Empty where nothing is known.
    """
    if not host_nbytes:
        return []
    candidates = sorted(host_nbytes) * (1 + (count + len(held)) // len(host_nbytes))
    return [candidates[i] for i in _greedily(host_nbytes, candidates, count, held)]


def best_nodes(host_nbytes: HostNbytes, hosts: Sequence[str], count: int) -> list[int]:
    """Returns which `count` of the nodes on these hosts to keep, in their order."""
    return sorted(_greedily(host_nbytes, hosts, count, ()))


def _greedily(host_nbytes: HostNbytes, candidates: Sequence[str], count: int, held: Sequence[str]) -> list[int]:
    """Returns `count` of the candidates, the best first; a host that is taken comes after all that are not."""
    taken = Counter(held)
    known = {group for host in held for group in host_nbytes.get(host, {})}

    def key(i: int) -> tuple[int, int, int, int]:
        groups = host_nbytes.get(candidates[i], {})
        added = sum(size for group, size in groups.items() if group not in known)
        return taken[candidates[i]], -added, -sum(groups.values()), i

    # Keys only grow: the least one, if it is still what it was, is the least of all.
    queue = [key(i) for i in range(len(candidates))]
    heapq.heapify(queue)
    chosen: list[int] = []
    while queue and len(chosen) < count:
        i = queue[0][-1]
        current = key(i)
        if current != queue[0]:
            heapq.heapreplace(queue, current)
            continue
        heapq.heappop(queue)
        chosen.append(i)
        taken[candidates[i]] += 1
        known.update(host_nbytes.get(candidates[i], {}))
    return chosen


def apart(hosts: Sequence[str], used: Sequence[str], count: int) -> list[int]:
    """Returns which `count` of the nodes on these hosts lie apart: from each other, and from those `used`."""
    others, own = Counter(used), Counter[str]()
    left, chosen = list(range(len(hosts))), list[int]()
    while left and len(chosen) < count:
        found = min(left, key=lambda i: (others[hosts[i]] + own[hosts[i]], own[hosts[i]], i))
        own[hosts[found]] += 1
        left.remove(found)
        chosen.append(found)
    return chosen


def covered(host_nbytes: HostNbytes, hosts: Sequence[str]) -> int:
    """Returns how many bytes lie on at least one of the hosts."""
    found: dict[int, int] = {}
    for host in hosts:
        for group, size in host_nbytes.get(host, {}).items():
            found[group] = max(found.get(group, 0), size)
    return sum(found.values())


def near(host_nbytes: HostNbytes, hosts: Sequence[str]) -> float:
    """Returns the most bytes that a node on each of these hosts can read there, when all nodes read equally many.

    A host that holds little helps little, even where the others hold all: they are not to read more than their part.
    """
    if not hosts:
        return 0.0
    part = covered(host_nbytes, list(host_nbytes)) / len(hosts)
    nodes = Counter(hosts)
    own = sum(min(count * part, sum(host_nbytes.get(host, {}).values())) for host, count in nodes.items())
    return min(own, covered(host_nbytes, hosts))


def seats(hosts: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Returns the order in which nodes on `hosts` take their seats: the one of each seat on the host wanted for it.

    Seats whose host has no node left take the remaining nodes.
    """
    free = list(range(len(hosts)))
    order: list[int | None] = []
    for host in wanted:
        found = next((i for i in free if hosts[i] == host), None)
        order.append(found)
        if found is not None:
            free.remove(found)
    return [free.pop(0) if i is None else i for i in order]
