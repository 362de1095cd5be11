"""Two ways to train churn each night with Airflow; take one."""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

from sparktf_airflow.operators import SparktfOperator, SparktfYarnOperator
from sparktf_airflow.verdicts import tell

CONFIG = "/opt/churn/churn.yaml"
SPARKTF = "/opt/churn/.venv/bin/sparktf"
DEPLOY = "echo deploy the model of {{ ds }}"

DEFAULTS = {
    # Tries after the first, of what the table of docs/nights/scheduling.md says to retry; nothing else is retried.
    "retries": 5,
    "retry_delay": timedelta(minutes=10),
    "on_failure_callback": tell("ml-team@example.org", "data-team@example.org"),
}
# One night at a time: a second would compete for the cluster.
NIGHTLY = {"schedule": "0 4 * * *", "start_date": datetime(2026, 11, 1), "catchup": False, "max_active_runs": 1}

with DAG("churn", default_args=DEFAULTS, **NIGHTLY):
    # The worker stays with the run: any master, and client mode.
    train = SparktfOperator(task_id="train", config=CONFIG, sparktf=SPARKTF)
    train >> BashOperator(task_id="deploy", bash_command=DEPLOY)

with DAG("churn_on_yarn", default_args=DEFAULTS, **NIGHTLY):
    # Cluster mode: the worker submits, the triggerer waits.
    train = SparktfYarnOperator(
        task_id="train",
        config=CONFIG,
        sparktf=SPARKTF,
        resource_managers=["http://resourcemanager:8088"],
        user="churn",
    )
    train >> BashOperator(task_id="deploy", bash_command=DEPLOY)
