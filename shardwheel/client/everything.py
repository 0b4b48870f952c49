"""All calls together."""

from __future__ import annotations

from shardwheel.client.cluster_calls import ClusterCalls
from shardwheel.client.dag_calls import DagCalls
from shardwheel.client.job_calls import JobCalls
from shardwheel.client.run_calls import RunCalls


class Everything(JobCalls, RunCalls, DagCalls, ClusterCalls):
    """What both clients can do."""
