"""How much memory a run's containers need, on YARN and on Kubernetes. Pure arithmetic, in MiB.

    executor container = executor memory + overhead, on YARN rounded up to its step
    overhead           = Spark's own max(384, 10 % of executor memory) + PYTHON_WORKER_MIB a core + one trainer
    driver container   = driver memory + Spark's own max(384, 10 % of driver memory) + PYTHON_DRIVER_MIB

A JVM's heap is bounded by its own memory setting; everything else in the container counts as overhead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sparktf.config.nodes import NodeMemory
from sparktf.errors import ConfigError, PreflightError

PYTHON_WORKER_MIB = 256
"""An agent or a feeder in its Python worker, and the daemon that forked it: 150 to 200 MiB + 50 MiB measured."""

PYTHON_DRIVER_MIB = 512
"""The driver's Python process in cluster mode, with pyarrow and pandas: some 210 MiB measured."""

_MIN_OVERHEAD_MIB = 384
_OVERHEAD_SHARE = 0.10
_UNITS_MIB = {"k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0**2, "p": 1024.0**3}


@dataclass(frozen=True, slots=True)
class Container:
    """The memory requested for one container."""

    what: str  # For people: "executor" or "driver"
    heap_mib: int  # The JVM's heap
    overhead_mib: int  # Everything else
    settings: str  # The settings to lower for a smaller one

    @property
    def mib(self) -> int:
        return self.heap_mib + self.overhead_mib

    def allocated_mib(self, step_mib: int) -> int:
        """Returns the memory that YARN allocates: a multiple of its minimum allocation."""
        return -(-self.mib // step_mib) * step_mib


def spark_overhead_mib(heap_mib: int, share: float = _OVERHEAD_SHARE, least_mib: int = _MIN_OVERHEAD_MIB) -> int:
    """Returns the overhead that Spark itself would ask for."""
    return max(int(heap_mib * share), least_mib)


def executor_container(heap_mib: int, node: NodeMemory, cores: int = 1) -> Container:
    """Returns the container of an executor with one trainer, and a Python worker for each core: agent and feeders.

    Args:
        node: Of the gang's largest process: executors have one size.
    """
    overhead_mib = spark_overhead_mib(heap_mib) + cores * PYTHON_WORKER_MIB + node.mib
    return Container("executor", heap_mib, overhead_mib, f"{node.key} or submit.executor_memory_mib")


def driver_container(heap_mib: int) -> Container:
    """Returns the container of a driver in cluster mode."""
    overhead_mib = spark_overhead_mib(heap_mib) + PYTHON_DRIVER_MIB
    return Container("driver", heap_mib, overhead_mib, "submit.driver_memory_mib")


def settled(container: Container, conf: Mapping[str, str]) -> Container:
    """Returns the container as Spark will ask for it where `conf` may override its memory or overhead."""
    key = f"spark.{container.what}"
    heap, overhead = conf.get(f"{key}.memory"), conf.get(f"{key}.memoryOverhead")
    return replace(
        container,
        heap_mib=container.heap_mib if heap is None else parse_mib(heap, f"{key}.memory"),
        overhead_mib=container.overhead_mib if overhead is None else parse_mib(overhead, f"{key}.memoryOverhead"),
    )


def check_fits(container: Container, largest_mib: int, source: str) -> None:
    """Refuses a container that YARN would never give.

    Args:
        largest_mib: YARN's maximum allocation; `source` is where it was found, for people.

    Raises:
        PreflightError: naming the settings to lower and YARN's setting.
    """
    if container.mib <= largest_mib:
        return
    raise PreflightError(
        f"the {container.what} needs {container.mib:,} MiB ({container.heap_mib:,} heap + {container.overhead_mib:,} "
        f"overhead), but {source} gives a container at most {largest_mib:,} MiB: lower {container.settings}, or "
        "raise yarn.scheduler.maximum-allocation-mb"
    )


def check_overhead(conf: Mapping[str, str], node: NodeMemory, share_in: str = "") -> None:
    """Refuses executors whose overhead cannot hold a trainer.

    Args:
        conf: Spark's settings, as the application has them.
        node: Of the gang's largest process.
        share_in: The cluster manager's own setting of the share of the heap that is overhead, where Spark's is not set.

    Raises:
        PreflightError: with the setting that would suffice.
    """
    heap_mib = parse_mib(conf.get("spark.executor.memory", "1g"), "spark.executor.memory")
    asked = conf.get("spark.executor.memoryOverhead")
    if asked is None:
        share = float(conf.get("spark.executor.memoryOverheadFactor", conf.get(share_in, _OVERHEAD_SHARE)))
        least_mib = parse_mib(
            conf.get("spark.executor.minMemoryOverhead", f"{_MIN_OVERHEAD_MIB}m"), "spark.executor.minMemoryOverhead"
        )
        overhead_mib = spark_overhead_mib(heap_mib, share, least_mib)
    else:
        overhead_mib = parse_mib(asked, "spark.executor.memoryOverhead")
    if overhead_mib >= node.mib:
        return
    needed_mib = executor_container(heap_mib, node).overhead_mib
    raise PreflightError(
        f"{node.what} needs {node.key}: {node.mib:,} MiB outside the executor's heap, but memoryOverhead is "
        f"{overhead_mib:,} MiB: use --conf spark.executor.memoryOverhead={needed_mib}m"
    )


def parse_mib(text: str, key: str) -> int:
    """Returns MiB of a size as Spark writes it: `512m`, `2g`, `1t`, or a plain number of MiB.

    Raises:
        ConfigError: it is no size.
    """
    plain = text.strip().lower()
    plain = plain.removesuffix("b") if plain[-2:-1] in _UNITS_MIB else plain
    unit = plain[-1:] if plain[-1:] in _UNITS_MIB else "m"
    try:
        return int(int(plain.removesuffix(unit)) * _UNITS_MIB[unit])
    except ValueError:
        raise ConfigError(f"{key}={text}: not a size such as 512m or 2g") from None
