"""What the trainers of a gang are given."""

from __future__ import annotations

from specs import trainer_spec

from sparktf.driver.gang.roster import AgentRecord
from sparktf.driver.gang.seating import Seating
from sparktf.sequence import Cursor
from sparktf.topology import NodeId, Role
from sparktf.wire.control import Registration
from sparktf.wire.restore import Restore


def test_a_node_of_a_large_gang_learns_how_far_the_epoch_is_and_not_where_each_node_was() -> None:
    members = tuple(NodeId(role=Role.WORKER, index=i) for i in range(2))
    agents = tuple(
        AgentRecord(
            Registration(agent=f"a{i}", partition=i, host="h", jvm="1", address=f"h:{i}", versions={}), 0.0, f"h:{i}"
        )
        for i in range(2)
    )
    seating = Seating(members, agents, dealt=("h", "h"))
    cursor = Cursor(epoch=3, done=tuple((10 * i, 10 * i + 4) for i in range(100_000)))
    leader = trainer_spec(
        attempt=2,
        node=members[0],
        cluster=seating.cluster,
        restore=Restore(path="/o/c", step=7, cursor=cursor, rows_trained=400_000, files=("weights",)),
    )
    specs = dict(seating.specs(leader))
    assert [spec.node for spec in specs.values()] == list(members)
    for spec in specs.values():
        assert spec.restore is not None
        assert (spec.restore.cursor.epoch, spec.restore.cursor.rows, spec.restore.step) == (3, 400_000, 7)
        assert len(spec.model_dump_json()) < 10_000
