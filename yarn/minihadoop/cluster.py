"""One mini cluster as a Python object: run commands on it, look at it, and break it."""

from __future__ import annotations

import signal
import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from minihadoop import kerberos, krb5, namespaces, network
from minihadoop.config import EDGE, ClusterConfig
from minihadoop.daemons import DATANODE, KDC, NODEMANAGER, TOOLS, Daemon, daemons_of, find_daemon, java_command
from minihadoop.environment import PROGRAM, environment, java_home
from minihadoop.errors import CommandError, MiniHadoopError, NotReadyError, RefusedError
from minihadoop.hadoop_conf import SUPERUSER
from minihadoop.hdfs import DataNodeState, Hdfs
from minihadoop.health import datanode_views, first_missing, nodemanager_views
from minihadoop.jars import distribution
from minihadoop.layout import ClusterFolder
from minihadoop.network import LinkBytes
from minihadoop.processes import Process, State, holder, read_record, spawn
from minihadoop.waiting import wait_for
from minihadoop.web import get_json
from minihadoop.yarn import NodeState, Yarn

DEADLINE_S = 60.0
_LOG_LINES = 15


class MiniHadoop:
    """A cluster that is up.

    Commands go into its network by themselves (`run`, `tool`). This process reaches it only within `inside()`: `hdfs`,
    `yarn`, `jmx` and the waiting for them are to be used there. Daemons are named by kind (`namenode`,
    `resourcemanager`, `datanode`, `nodemanager`) and, for the last two, host (`host1`, ...).

    Attributes:
        config: What was asked for.
        folder: Where its files are.
        hdfs: Its file system.
        yarn: Its applications.
    """

    def __init__(self, config: ClusterConfig, folder: ClusterFolder) -> None:
        self.config = config
        self.folder = folder
        self.hdfs = Hdfs(config, folder)
        self.yarn = Yarn(config, folder)

    @classmethod
    def attach(cls, name: str = "default") -> MiniHadoop:
        """Returns the cluster of that name.

        Raises:
            RefusedError: It is not up.
        """
        folder = ClusterFolder.of(name)
        if not folder.is_complete():
            raise RefusedError(f"there is no cluster {name}: start it with `{PROGRAM} --name {name} up`")
        return cls(folder.read_config(), folder)

    # --- commands on its hosts ---

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Moves the calling thread, and what it starts, to the edge of the cluster's network, and back in the end.

        Raises:
            MiniHadoopError: The kernel refuses; as an ordinary user, a process must not have threads yet, and it stays.
        """
        with namespaces.inside(self._holder(EDGE)):
            yield

    def command(self, command: Sequence[str], host: str = EDGE, folder: Path | None = None) -> list[str]:
        """Returns a command that runs `command` on a host, in `folder` or in the working directory."""
        return namespaces.command_in(self._holder(self.config.host(host).name), command, folder)

    def environment(self, host: str = EDGE, user: str | None = None) -> dict[str, str]:
        """Returns the environment of a command on a host: this process's, with the cluster's HADOOP_CONF_DIR.

        Args:
            user: Who acts on a secured cluster, by the ticket that `login` has got; nobody by default.
        """
        conf_dir = self.conf_dir(host)
        tickets = {"KRB5CCNAME": kerberos.ticket(self.folder, user)} if self.config.secure else {}
        return environment(HADOOP_CONF_DIR=conf_dir, YARN_CONF_DIR=conf_dir, JAVA_HOME=java_home(), **tickets)

    def login(self, user: str, life: str = "24h") -> None:
        """Gets a user's ticket for a secured cluster, from which `environment(user=...)` and `hdfs` take it.

        Args:
            user: One of `kerberos.USERS`.
            life: How long it lives, as kinit(1) has it: "20s".

        Raises:
            CommandError: The KDC gives none.
        """
        self.run(kerberos.login_command(self.folder, krb5.found(), user, life))
        kerberos.new_ticket(self.folder, user).replace(self.folder.tickets / user)

    def conf_dir(self, host: str = EDGE) -> Path:
        """Returns the HADOOP_CONF_DIR of a host."""
        return self.folder.conf(self.config.host(host).name)

    def run(
        self,
        command: Sequence[str],
        host: str = EDGE,
        *,
        timeout_s: float = 120,
        check: bool = True,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command on a host and returns its output.

        Raises:
            CommandError: It failed, unless `check` is off.
            subprocess.TimeoutExpired: It took longer than `timeout_s`; it has been killed.
        """
        done = subprocess.run(
            self.command(command, host),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            env={**self.environment(host, user), **(env or {})},
        )
        if check and done.returncode != 0:
            last = "\n".join((done.stdout + done.stderr).splitlines()[-_LOG_LINES:])
            raise CommandError(f"{' '.join(command)}, exit code {done.returncode}:\n{last}")
        return done

    def tool(self, tool: str, *arguments: str, host: str = EDGE, user: str | None = None) -> str:
        """Runs a command line tool of Hadoop's (see `TOOLS`) and returns its output; about 2 s. `user` as in `run`.

        Raises:
            CommandError: It failed.
        """
        return self.run(self.tool_command(tool, arguments, host), host, user=user).stdout

    def tool_command(self, tool: str, arguments: Sequence[str], host: str = EDGE) -> list[str]:
        """Returns the Java command of a tool.

        Raises:
            RefusedError: There is no tool of that name.
        """
        if tool not in TOOLS:
            raise RefusedError(f"no tool {tool!r}: {', '.join(TOOLS)}")
        # `yarn application` hands its own name on; without it, some options are not known.
        named = [tool, *arguments] if tool == "application" else arguments
        return java_command(java_home(), distribution(self.config.hadoop), self.conf_dir(host), TOOLS[tool], named)

    def aggregated_logs(self, application_id: str) -> str:
        """Returns the logs of all containers of an application that has ended, when its hosts have stored them in HDFS.

        Raises:
            NotReadyError: They have not, in time.
        """

        def missing() -> str:
            status = self.yarn.log_aggregation(application_id)
            return "" if status == "SUCCEEDED" else f"its state is {status}"

        wait_for(f"the logs of {application_id} are in HDFS", missing, DEADLINE_S)
        return self.tool("logs", "-applicationId", application_id)

    # --- its daemons ---

    @property
    def daemons(self) -> tuple[Daemon, ...]:
        return daemons_of(self.config)

    def process(self, kind: str, host: str | None = None) -> Process | None:
        """Returns the process of a daemon, also if it has ended; None if it never started."""
        return read_record(self.folder.record(find_daemon(self.config, kind, host).name))

    def state(self, kind: str, host: str | None = None) -> State:
        """Returns the state of a daemon's process."""
        process = self.process(kind, host)
        return process.state() if process else State.ENDED

    def kill(self, kind: str, host: str | None = None) -> None:
        """Kills a daemon with kill -9. Containers outlive their NodeManager, as elsewhere."""
        self._send(signal.SIGKILL, kind, host, State.ENDED)

    def freeze(self, kind: str, host: str | None = None) -> None:
        """Stops a daemon with SIGSTOP: its connections stay open and silent."""
        self._send(signal.SIGSTOP, kind, host, State.FROZEN)

    def thaw(self, kind: str, host: str | None = None) -> None:
        """Continues a frozen daemon."""
        self._send(signal.SIGCONT, kind, host, State.RUNNING)

    def start(self, kind: str, host: str | None = None) -> None:
        """Starts a daemon that has ended, with its old data; does not wait until the others know it.

        Raises:
            RefusedError: It runs.
        """
        if self.state(kind, host) is not State.ENDED:
            raise RefusedError(f"{kind} runs already: kill it first, or restart it")
        daemon = find_daemon(self.config, kind, host)
        conf_dir, data = self.conf_dir(daemon.host.name), self.folder.data(daemon.host.name)
        variables = self.environment(daemon.host.name)
        if daemon.kind is KDC:
            command = kerberos.kdc_command(krb5.found())
            variables = kerberos.kdc_environment(self.folder, krb5.found())
        else:
            command = java_command(
                java_home(),
                distribution(self.config.hadoop),
                conf_dir,
                daemon.kind.main_class,
                heap_mib=daemon.kind.heap_mib,
                # Web pages are unpacked into the temporary folder: it goes with the cluster.
                folders={"hadoop.log.dir": self.folder.logs, "yarn.log.dir": self.folder.logs, "java.io.tmpdir": data},
            )
        prefix = self.command([], daemon.host.name, data)
        spawn(self.folder.record(daemon.name), command, self.folder.log(daemon.name), variables, prefix)

    def restart(self, kind: str, host: str | None = None, deadline_s: float = DEADLINE_S) -> None:
        """Kills a daemon if need be, starts it, and waits until the cluster is whole again.

        Raises:
            NotReadyError: It is not, at the deadline.
        """
        self.kill(kind, host)
        self.start(kind, host)
        self.wait_until_up(deadline_s)

    def make_active(self, host: str) -> None:
        """Makes the NameNode of a host the active one, when the other stands by or is known to have ended; about 2 s.

        Raises:
            CommandError: It refuses.
        """
        name = self.config.host(host).name
        self.tool("haadmin", "-transitionToActive", "--forceactive", name, user=SUPERUSER)

    def fail_over(self, deadline_s: float = DEADLINE_S) -> str:
        """Kills the active one of a pair of NameNodes, makes the other one active, and starts the first, to stand by.

        Returns:
            The host of the one that is active now. Whether the first has come back is not waited for.

        Raises:
            NotReadyError: The other one does not stand by, at the deadline.
        """
        hosts = [host.name for host in self.config.name_hosts]
        gone = self.hdfs.active() or hosts[0]
        other = next(host for host in hosts if host != gone)
        stands_by = f"the NameNode of {other} stands by"
        wait_for(stands_by, lambda: "" if self.hdfs.role(other) == "standby" else "it does not", deadline_s)
        self.kill("namenode", gone)
        self.make_active(other)
        self.start("namenode", gone)
        return other

    def log_tail(self, kind: str, host: str | None = None, lines: int = _LOG_LINES) -> str:
        """Returns the path of a daemon's log and its last lines."""
        log = self.folder.log(find_daemon(self.config, kind, host).name)
        with log.open(encoding="utf-8", errors="replace") as file:
            return "".join([f"{log} ends with:\n", *deque(file, lines)]).rstrip()

    def jmx(self, bean: str, kind: str, host: str | None = None) -> dict[str, Any]:
        """Returns the attributes of a management bean: `jmx("Hadoop:service=DataNode,name=FSDatasetState", ...)`.

        Raises:
            MiniHadoopError: The daemon has none of that name.
            OSError: It is not reached.
        """
        daemon = find_daemon(self.config, kind, host)
        asking = kerberos.ticket(self.folder, SUPERUSER) if self.config.secure else None
        beans: list[dict[str, Any]] = get_json(f"{daemon.web_url}/jmx?qry={bean}", ticket=asking)["beans"]
        if not beans:
            raise MiniHadoopError(f"{daemon.name} has no bean {bean}")
        return beans[0]

    # --- its links ---

    def cut(self, host: str) -> None:
        """Takes a host off the network; nobody is told."""
        network.set_link(self._holder(EDGE), self.config.host(host).name, up=False)

    def mend(self, host: str) -> None:
        """Puts a host back on the network."""
        network.set_link(self._holder(EDGE), self.config.host(host).name, up=True)

    def link_is_up(self, host: str) -> bool:
        """Whether a host is on the network."""
        return network.link_is_up(self._holder(EDGE), self.config.host(host).name)

    def link_bytes(self, host: str) -> LinkBytes:
        """Returns the bytes that went over a host's link since the cluster started."""
        return network.link_bytes(self._holder(EDGE), self.config.host(host).name)

    # --- waiting ---

    def wait_until_up(self, deadline_s: float = DEADLINE_S) -> None:
        """Waits until HDFS is writable and every DataNode and NodeManager is in service.

        Raises:
            NotReadyError: It is not so at the deadline, or a daemon has ended; with the end of the log concerned.
        """

        def missing() -> str:
            self._check_none_ended()
            found = first_missing(self.hdfs, self.yarn if self.config.yarn else None)
            return found.what if found else ""

        def clues() -> str:
            found = first_missing(self.hdfs, self.yarn if self.config.yarn else None)
            return self.log_tail(found.kind, found.host) if found else ""

        wait_for(f"cluster {self.config.name} is up", missing, deadline_s, clues)

    def wait_for_datanode(self, host: str, wanted: DataNodeState, deadline_s: float = DEADLINE_S) -> None:
        """Waits until the NameNode sees the DataNode of a host so.

        Raises:
            NotReadyError: It does not, at the deadline.
        """

        def missing() -> str:
            seen = datanode_views(self.hdfs).get(host)
            return "" if seen is wanted else f"it is {seen.value}" if seen else "the NameNode does not answer"

        self._wait_for_view(DATANODE.name, host, wanted.value, missing, deadline_s)

    def wait_for_nodemanager(self, host: str, wanted: NodeState, deadline_s: float = DEADLINE_S) -> None:
        """Waits until the ResourceManager sees the NodeManager of a host so.

        Raises:
            NotReadyError: It does not, at the deadline.
        """

        def missing() -> str:
            seen = nodemanager_views(self.yarn).get(host)
            return "" if seen is wanted else f"it is {seen.value}" if seen else "the ResourceManager does not answer"

        self._wait_for_view(NODEMANAGER.name, host, wanted.value, missing, deadline_s)

    def _wait_for_view(self, kind: str, host: str, wanted: str, missing: Callable[[], str], deadline_s: float) -> None:
        wait_for(f"{kind} of {host} is {wanted}", missing, deadline_s, lambda: self.log_tail(kind, host))

    def _check_none_ended(self) -> None:
        """Raises NotReadyError with the end of its log if a daemon has ended: then nothing is worth waiting for."""
        for daemon in self.daemons:
            where = daemon.kind.name, daemon.host.name
            if self.state(*where) is State.ENDED:
                raise NotReadyError(f"{daemon.name} has ended\n{self.log_tail(*where)}")

    # --- what holds it together ---

    def _holder(self, host: str) -> int:
        """Returns the pid of the process that holds the namespaces of a host."""
        return holder(self.folder, host).pid

    def _send(self, number: signal.Signals, kind: str, host: str | None, then: State) -> None:
        """Sends a signal to a daemon and waits until it shows."""
        process = self.process(kind, host)
        if process and process.send(number):
            wait_for(f"{kind} is {then.value}", lambda: "" if process.state() in (then, State.ENDED) else "not yet", 10)
