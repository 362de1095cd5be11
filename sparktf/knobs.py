"""Times that no user sets, in one place, so that they can be compared, and set by tests.

Times that users set are in `timeouts` of the configuration; those of heartbeats follow from them (`rhythm_of`).
Each process has its own knobs.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Knobs:
    """All in seconds."""

    tick_s: float = 0.2  # longest time between two looks of the driver at its nodes
    listens_s: float = 1.0  # longest gap between readings of a `ListeningClock`: else the process stood still
    settle_s: float = 1.0  # after a failure, time for other nodes to report an earlier one
    left_behind_s: float = 60.0  # limit once another trainer has left its loop: more than a call or an evaluation takes
    own_feeders_s: float = 2.0  # a dry node's wait for its own feeders before others send rows over the network
    spares_s: float = 15.0  # a complete gang's wait for further executors, which may be nearer to the data
    placed_s: float = 20.0  # time for requested executors before their hosts are checked, and others requested
    executors_poll_s: float = 0.2  # interval of looks for requested executors
    slow_s: float = 60.0  # a node is named whose computing takes longer than the others' for this time
    events_s: float = 5.0  # interval of storing the events in memory
    ready_poll_s: float = 30.0  # shortest interval of looks for a run's data
    hasty_storage_s: float = 2.0  # deadline of storage calls that nobody waits for: events, tidying up
    hasty_guest_s: float = 10.0  # time for each guest to learn of the end of an interrupted run
    release_s: float = 30.0  # time for Spark to give back executors
    release_poll_s: float = 0.5  # interval of looks whether it has
    rate_window_s: float = 10.0  # window of the mean of rows a second
    driver_gone_s: float = 3.0  # time for a driver to answer whose process seems to be gone
    late_s: float = 0.5  # a call this long after its deadline was held up in the caller's own process
    login_s: float = 75.0  # limit of a question to Hadoop's client: Java gives a silent KDC three times 30 s
    token_poll_s: float = 2.0  # interval of looks whether Spark has got other delegation tokens
    agent_poll_s: float = 0.05  # interval of an agent's looks at its trainer, for whose loss the others wait
    log_upload_s: float = 5.0  # deadline of a trainer's log; short, because the agent misses heartbeats meanwhile
    last_upload_s: float = 5.0  # training's longest wait for the upload before
    call_s: float = 0.5  # aim for a call into TensorFlow: hides its overhead, and lets progress and saves through
    drain_s: float = 10.0  # an idle coordinator's least wait for a result; then it goes on without those under way
    fetch_again_s: float = 0.1  # interval of asking for a lost worker's result, until it is made again elsewhere
    cancelled_s: float = 1.0  # how long a worker's failure may arrive after the cancellations that it caused
    closed_beats: float = 2.4  # so many heartbeats a trainer may miss that has closed its connections
    regroup_s: float = 0.1  # the driver's longest wait with the answer to a member whose gang regroups
    tell_s: float = 0.5  # interval of a coordinator's reports of progress to the driver
    reconnect_s: float = 20.0  # a worker lost to TensorFlow but not to the driver counts as alive after this time
    shard_poll_s: float = 0.2  # interval of looks whether parameter servers have moved their checkpoint files
    summaries_s: float = 5.0  # deadline of TensorBoard's summaries, which may be stored the next time: training waits
    nursery_answer_s: float = 5.0  # time for a nursery to fork a trainer; then a fresh process is started instead
    staged_poll_s: float = 0.1  # interval of a feed's looks for rows from Spark
    feed_close_s: float = 5.0  # a closing feed's wait for its reading thread
    unanswered_s: float = 15.0  # silence of a peer's kernel, or bytes that it does not take, until their link is cut
    take_wait_s: float = 0.2  # a dry worker's wait for rows before it says so: the wait holds a thread of TensorFlow's
    next_commit_s: float = 0.5  # interval of an idle evaluator's looks for a commit
    pause_s: float = 0.0005  # a worker's first wait for a shared update; the following ones are longer
    publish_s: float = 60.0  # least time left for export and publishing without `train.reserve`
    bad_rows_s: float = 0.2  # interval of storing the bad rows of a worker that leases
    scorer_look_s: float = 1.0  # interval of a scorer's looks at its executor and tasks, and of its signs of life
    scorer_idle_s: float = 60.0  # life of a scorer without a task: the next job need not load the model again
    scorer_followed_s: float = 5.0  # the same if the executor has a younger scorer of another model, as in a search
    scorer_silent_s: float = 60.0  # a scorer without a sign of life for this long counts as lost
    scorer_answer_s: float = 1800.0  # so does one that lives but gives no answer for this long
    resource_manager_call_s: float = 5.0  # deadline of a call to YARN's ResourceManager
    resource_manager_retry_s: float = 1.0  # interval of further calls to one that cannot be reached
    resource_manager_wait_s: float = 30  # longest wait for one; Hadoop's own default is 15 minutes
    web_login_s: float = 30.0  # deadline of a login by Kerberos to a web server, with the JVM that it may need
    web_login_again_s: float = 60.0  # after one that failed, time until the next: each question would wait for it
    kill_application_s: float = 60.0  # time for YARN to kill an application
    last_output_s: float = 1.0  # longest reading of spark-submit's pipe after its end: a grandchild may hold it open
    python_answer_s: float = 60.0  # time for a Python to tell its version and missing modules
    submit_poll_s: float = 0.5  # interval of looks at spark-submit
    follow_s: float = 2.0  # interval of looks at the run directory of a run in cluster mode
    node_look_s: float = 10.0  # time for agents to tell of their hosts, and to try to reach each other
    board_stop_s: float = 5.0  # time for a TensorBoard to stop
    driver_stop_s: float = 60.0  # time for a driver to stop
    clean_up_s: float = 10.0  # time to remove a submission's staged files, which are left otherwise


KNOBS = Knobs()
