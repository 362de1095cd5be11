"""The mini cluster with Kerberos: who is let in, and who is not."""

from __future__ import annotations

import pytest

from minihadoop import MiniHadoop

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
