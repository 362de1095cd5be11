"""Times that no user sets, in one place: whoever changes one sees the others, and a test can set them.

What a user may want to set stands in `timeouts` of the configuration, and how often nodes are heard in `beats.py`.
Each process has knobs of its own.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Knobs:
    """All in seconds.

    Attributes:
        tick_s: The driver looks at its nodes at least so often.
        listens_s: Between two looks at its clock, a process that judges whether others are silent lets no more pass; by
            what is more it stood still, and heard nobody.
        settle_s: After a failure: so long other nodes may still report one that happened earlier.
        left_behind_s: A trainer may stand still so long once another one has left its loop: more than a call or
            an evaluation takes.
        own_feeders_s: A node that has run dry waits so long for its own feeders before it takes rows from
            others: these cross the network, and are beside their own node already.
        spares_s: The gang, once it has enough, waits so long for executors beyond need, which may be nearer to
            the data.
        placed_s: Executors that were asked for may take so long before it is looked where they are, and whether
            others should be asked for.
        executors_poll_s: It is looked so often whether they are there.
        events_s: It is looked so often whether events in memory are to be stored.
        ready_poll_s: A run that waits for its data looks so often whether it is there, at least.
        hasty_storage_s: Deadline of what nobody waits for while the storage is away: events, tidying up.
        hasty_guest_s: What learns of the end of a run that was interrupted may take so long, each.
        release_s: Spark may take so long to give executors back that nobody needs.
        release_poll_s: It is looked so often whether it has.
        rate_window_s: Rows a second are told as the mean over so long.
        fence_look_s: A driver may train so long before it looks whether the run is still its own; each commit
            finds out by itself.
        driver_gone_s: A driver whose process seems to be gone is asked again for so long.
        late_s: A call that comes back so long after its deadline was held up in the caller's own process.
        agent_poll_s: An agent looks after its trainer so often.
        log_upload_s: Deadline of a trainer's log on its way to the run directory: the agent does nothing else
            meanwhile, and its heartbeats are missed.
        last_upload_s: Training waits so long for the upload before, at most.
        call_s: A call into TensorFlow should take so long: enough to hide its overhead, short enough for
            progress and saves.
        drain_s: A coordinator that sends nothing out waits so long for anything to come back from its workers, at
            least; then it goes on without what is under way.
        fetch_again_s: A result that a lost worker had is asked for so often, until it is made again elsewhere.
        cancelled_s: What has failed on a worker may be heard so long after what was cancelled for it.
        tell_s: A coordinator tells the driver what is trained so often.
        reconnect_s: A worker that TensorFlow has lost, and the driver has not, is taken for alive after so long.
        shard_poll_s: A coordinator looks so often whether parameter servers have moved their files of a checkpoint.
        summaries_s: Deadline of TensorBoard's summaries: training waits for them, and they may be stored the next time.
        nursery_answer_s: A nursery may take so long to fork a trainer; then a fresh process is started instead.
        staged_poll_s: A feed that waits for rows from Spark looks so often whether there are any.
        feed_close_s: A feed that is closed waits so long for its reading thread.
        take_wait_s: A worker that has no rows to train says so after so long: what waits for them ties up a thread
            of TensorFlow's, and asking again costs a message.
        next_commit_s: An evaluator that has nothing to evaluate asks so often whether there is something.
        pause_s: A worker that shares an update waits so long before it asks again whether that is made; then longer.
        publish_s: Exporting and publishing take so long at least, where `train.reserve` does not say.
        bad_rows_s: A worker that leases its rows looks so often whether there are bad ones to store.
        scorer_look_s: A process that scores looks so often whether its executor and any task are there.
        scorer_idle_s: It ends after so long without a task: the next job need not load the model again.
        scorer_followed_s: And after so long where the executor has a younger one, of another model: a search has many.
        scorer_silent_s: A process that scores, and says nothing for so long to a task that waits, counts as lost: it
            says every `scorer_look_s` that it lives.
        scorer_answer_s: So does one that lives and gives no answer for so long.
        resource_manager_call_s: Deadline of a call to YARN's ResourceManager.
        resource_manager_retry_s: One that cannot be reached is asked again so often.
        resource_manager_wait_s: It is waited for so long; Hadoop's own default is 15 minutes.
        kill_application_s: YARN may take so long to end an application.
        last_output_s: What is left in spark-submit's pipe is read for so long: a grandchild may hold it open
            for longer.
        python_answer_s: A Python may take so long to say what it is, and what it lacks.
        submit_poll_s: spark-submit is looked after so often.
        follow_s: A run in cluster mode is looked at in its run directory so often.
        board_stop_s: A TensorBoard that is told to stop may take so long.
        driver_stop_s: A driver that is told to stop may take so long.
        clean_up_s: What a submission has staged is removed within so long, or left.
    """

    tick_s: float = 0.2
    listens_s: float = 1.0
    settle_s: float = 1.0
    left_behind_s: float = 60.0
    own_feeders_s: float = 2.0
    spares_s: float = 15.0
    placed_s: float = 20.0
    executors_poll_s: float = 0.2
    events_s: float = 5.0
    ready_poll_s: float = 30.0
    hasty_storage_s: float = 2.0
    hasty_guest_s: float = 10.0
    release_s: float = 30.0
    release_poll_s: float = 0.5
    rate_window_s: float = 10.0
    fence_look_s: float = 10.0
    driver_gone_s: float = 3.0
    late_s: float = 0.5
    agent_poll_s: float = 0.1
    log_upload_s: float = 5.0
    last_upload_s: float = 5.0
    call_s: float = 0.5
    drain_s: float = 10.0
    fetch_again_s: float = 0.1
    cancelled_s: float = 1.0
    tell_s: float = 0.5
    reconnect_s: float = 20.0
    shard_poll_s: float = 0.2
    summaries_s: float = 5.0
    nursery_answer_s: float = 5.0
    staged_poll_s: float = 0.1
    feed_close_s: float = 5.0
    take_wait_s: float = 0.2
    next_commit_s: float = 0.5
    pause_s: float = 0.0005
    publish_s: float = 60.0
    bad_rows_s: float = 0.2
    scorer_look_s: float = 1.0
    scorer_idle_s: float = 60.0
    scorer_followed_s: float = 5.0
    scorer_silent_s: float = 60.0
    scorer_answer_s: float = 1800.0
    resource_manager_call_s: float = 5.0
    resource_manager_retry_s: float = 1.0
    resource_manager_wait_s: float = 30
    kill_application_s: float = 60.0
    last_output_s: float = 1.0
    python_answer_s: float = 60.0
    submit_poll_s: float = 0.5
    follow_s: float = 2.0
    board_stop_s: float = 5.0
    driver_stop_s: float = 60.0
    clean_up_s: float = 10.0


KNOBS = Knobs()
