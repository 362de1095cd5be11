"""The mini cluster with Kerberos: who is let in, and who is not, and what a command says to those."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from cluster.submission import SPARKTF, digits_config, environment_of, ticket_of

from minihadoop import MiniHadoop
from minihadoop.waiting import wait_for
from sparktf.config.load import parse_config
from sparktf.errors import ConfigError
from sparktf.storage.ticket_cache import ticket_in
from sparktf.submit.cluster_manager import YarnManager

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize(
    ("user", "says"), [("bob", "Permission denied: user=bob"), (None, "[TOKEN, KERBEROS]")], ids=["bob", "nobody"]
)
def test_others_cannot_read_what_alice_keeps_for_herself(secured: MiniHadoop, user: str | None, says: str) -> None:
    with secured.inside():
        secured.hdfs.put("/user/alice/letter", b"for my eyes", user="alice")
        assert secured.hdfs.get("/user/alice/letter", user="alice") == b"for my eyes"
        assert secured.tool("fs", "-cat", "/user/alice/letter", user="alice") == "for my eyes"
    done = secured.run(secured.tool_command("fs", ["-cat", "/user/alice/letter"]), user=user, check=False)
    assert done.returncode == 1
    assert says in done.stderr
    assert "for my eyes" not in done.stdout


def test_each_way_not_to_be_let_in_is_told_in_one_line(secured: MiniHadoop, tmp_path: Path) -> None:
    """Java says that there is no ticket, where one has expired, and buries a KDC that is down in two exceptions."""
    secured.login("bob", "1s")
    known = (secured.folder.kerberos / "krb5.conf").read_text(encoding="ascii")
    down = tmp_path / "krb5.conf"
    down.write_text(known.replace(".test:88\n", ".test:89\n"), encoding="ascii")
    exact = tmp_path / "exact.conf"
    exact.write_text(known.replace("[libdefaults]\n", "[libdefaults]\n clockskew = 1\n"), encoding="ascii")

    def says(user: str | None, realms: Path | None) -> list[str]:
        known_by = {} if realms is None else {"KRB5_CONFIG": str(realms)}
        command = [*SPARKTF, "runs", "--output", "/user/alice/runs"]
        done = secured.run(
            command, user=user, check=False, env={**environment_of(secured), **known_by, **ticket_of(secured, user)}
        )
        assert done.returncode == 2, done.stderr
        return done.stderr.splitlines()

    ticket = ticket_in(Path(ticket_of(secured, "bob")["KRB5CCNAME"].removeprefix("FILE:")).read_bytes())
    assert ticket is not None
    wait_for("bob's ticket has ended", lambda: "" if time.time() > ticket.ends_s + 1 else "it has not", 30)
    asked = ((None, None), ("bob", exact), ("alice", down))
    with ThreadPoolExecutor(len(asked)) as pool:
        nobody, late, cut_off = (next(iter(said)) for said in pool.map(lambda one: says(*one), asked))
    secured.login("bob")
    assert nobody.startswith("Kerberos: HDFS gives no token: there is no ticket: get a ticket with kinit")
    assert late.startswith("Kerberos: HDFS gives no token: the ticket of bob@MINIHADOOP.TEST has expired (20")
    assert cut_off.startswith("Kerberos: HDFS gives no token: the KDC refuses connections: see whether it is up")


def test_doctor_asks_yarn_by_the_ticket_of_its_user(secured: MiniHadoop, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(yaml.safe_dump(digits_config(tmp_path, "/lake/digits", output={"path": "/user/alice/runs"})))
    variables = {**environment_of(secured), **secured.environment(user="alice")}
    done = secured.run([*SPARKTF, "doctor", "--json", "--config", str(config)], env=variables, user="alice")
    found = {one["subject"]: (one["mark"], one["found"]) for one in json.loads(done.stdout)["diagnoses"]}
    assert found["queue"] == ("ok", "root.default is running")
    assert found["YARN"][0] == found["clocks"][0] == "ok"  # who is refused is not told the time
    assert "2 hosts, 16,384 MiB" in found["YARN"][1]
    assert "hadoop.auth" not in done.stdout + done.stderr


def test_a_submission_asks_yarn_and_is_told_why_it_gets_no_answer(
    secured: MiniHadoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of queues YARN's REST API alone tells, and it answers nobody without a login."""
    config = parse_config(yaml.safe_dump(digits_config(tmp_path, "/lake", submit={"queue": "nights"})))
    for key, value in secured.environment(user="alice").items():
        monkeypatch.setenv(key, value)
    with secured.inside():
        with pytest.raises(ConfigError, match="nights does not exist in YARN: name one of default"):
            YarnManager(config).check()
        monkeypatch.setenv("KRB5CCNAME", ticket_of(secured, None)["KRB5CCNAME"])
        manager = YarnManager(config)
        manager.check()
    assert manager.refusal == (
        f"Kerberos: there is no login to {secured.config.master.fqdn}: there is no ticket, or it has expired: get a "
        "ticket with kinit (klist shows it)"
    )
