"""Alerts about llmgw itself: control plane, gateways, and whether they are scraped at all."""

from llmgw.observability.alert import CRITICAL, WARNING, Alert, Case, Group
from llmgw.observability.alerts.series import series

JOB = "llmgw"
"""The name under which Prometheus scrapes control planes (`scrape.JOB`)."""

_TARGET = {"job": JOB, "instance": "control:7441"}
_GATEWAY = {"gateway": "edge-1"}
_PASS = {"pass": "reconcile"}
_RECORDS = {"records": "events"}

TARGET_DOWN = Alert(
    name="LlmgwTargetDown",
    expr=f'up{{job="{JOB}"}} == 0',
    hold="2m",
    severity=CRITICAL,
    summary="{{ $labels.instance }} can't be scraped",
    description="Prometheus gets no metrics from this control plane; no other alert of it fires.",
    meaning="The control plane does not answer Prometheus: it is down, or it refuses the token."
    " Requests are served on: gateways and engines need no control plane for that.",
    steps="""
        - Prometheus's page of targets has the reason. `401`: the token is wrong; make one
          with `llmgw ctl token add NAME --role metrics`.
        - `connection refused`: does `llmgw server` run, and does it listen on that address
          (`admin` in server.yaml)?
    """,
    cases=(
        Case(at="3m", series={series("up", _TARGET): "0x10"}, fires=(_TARGET,)),
        Case(at="3m", series={series("up", _TARGET): "0 0 1x10"}),
        Case(at="3m", series={series("up", {**_TARGET, "job": "others"}): "0x10"}),
    ),
)

NO_LEADER = Alert(
    name="LlmgwNoLeader",
    expr="absent(llmgw_leader == 1)",
    hold="2m",
    severity=CRITICAL,
    summary="No control plane leads",
    description="Nothing is placed, restarted or counted until one does. What runs serves on.",
    meaning="No control plane that Prometheus scrapes says that it leads the cluster.",
    steps="""
        - `llmgw ctl status` from a machine with a context. Unreachable: does `llmgw server`
          run on the control plane's machine? Its log says.
        - It ends as it starts: its log names the cause (the store, a port, another one on
          the same store).
    """,
    cases=(
        Case(at="3m", series={"llmgw_leader": "0x10"}, fires=({},)),
        Case(at="3m", series={"something_else": "1x10"}, fires=({},)),
        Case(at="3m", series={"llmgw_leader": "0 0 1x10"}),
    ),
)

GATEWAY_AWAY = Alert(
    name="LlmgwGatewayAway",
    expr="llmgw_gateway_up == 0",
    hold="2m",
    severity=CRITICAL,
    summary="Gateway {{ $labels.gateway }} is away",
    description="It has no stream to the control plane. If it runs, it serves on its last table.",
    meaning="A gateway is not connected: it ended, or the network between it and the control plane"
    " is cut. In the first case users who ask it get nothing.",
    steps="""
        - Ask it: `curl http://GATEWAY:7440/healthz`. It answers: the network or its
          certificate.
        - It does not: start `llmgw gateway` there again; its log says why it ended.
    """,
    cases=(
        Case(at="3m", series={series("llmgw_gateway_up", _GATEWAY): "0x10"}, fires=(_GATEWAY,)),
        Case(at="3m", series={series("llmgw_gateway_up", _GATEWAY): "0 0 1x10"}),
    ),
)

PASS_FAILING = Alert(
    name="LlmgwPassFailing",
    expr="llmgw_pass_failing == 1",
    hold="5m",
    severity=WARNING,
    summary="The control plane's pass {{ $labels.pass }} fails",
    description="It has failed at every run for five minutes.",
    meaning="Something that the control plane does again and again fails: `reconcile` decides what"
    " runs where, `liveness` who is lost, `engines` what is installed, `certificates` renews.",
    steps="""
        - Its log has the error, at the first failure of a row.
        - `llmgw ctl plan` shows whether the last decision is old.
        - A restart of the control plane is safe at any time; report the error.
    """,
    cases=(
        Case(at="6m", series={series("llmgw_pass_failing", _PASS): "1x10"}, fires=(_PASS,)),
        Case(at="6m", series={series("llmgw_pass_failing", _PASS): "1 1 0 1 1 1 1"}),
    ),
)

PASS_STOPPED = Alert(
    name="LlmgwPassStopped",
    expr='time() - llmgw_pass_last_run_timestamp_seconds{pass=~"reconcile|liveness"} > 300',
    hold="2m",
    severity=CRITICAL,
    summary="The control plane's pass {{ $labels.pass }} has stopped",
    description="It last ended {{ $value | humanizeDuration }} ago.",
    meaning="A pass that runs every few seconds hangs: nothing is placed or noticed any more.",
    steps="""
        - Restart the control plane: what runs serves on, and it rebuilds what it knows.
        - Report it with the log from before the restart.
    """,
    cases=(
        Case(
            at="10m",
            series={series("llmgw_pass_last_run_timestamp_seconds", _PASS): "0x20"},
            fires=(_PASS,),
            value="10m 0s",
        ),
        Case(
            at="10m",
            series={series("llmgw_pass_last_run_timestamp_seconds", _PASS): "0+60x20"},
        ),
    ),
)

NOT_WRITTEN = Alert(
    name="LlmgwStoreNotWritten",
    expr="llmgw_store_write_failing == 1",
    hold="1m",
    severity=CRITICAL,
    summary="The control plane can't write its {{ $labels.records }}",
    description="What happens is kept in memory and lost with the process. What runs serves on.",
    meaning="The store on the control plane's machine can't be written: its disk is full, or the"
    " file or its filesystem is read-only. The newest thousand events wait in memory, gateways"
    " keep what was used; no model, key or setting can be changed, and nothing can join.",
    steps="""
        - `llmgw ctl status` has the reason and the path, the control plane's log too.
        - `df -h` there: free space, or grow the filesystem. Nothing is to be restarted: what
          waits is written within seconds.
        - Don't restart the control plane before: what waits in memory would be lost.
    """,
    cases=(
        Case(
            at="2m",
            series={series("llmgw_store_write_failing", _RECORDS): "1x10"},
            fires=(_RECORDS,),
        ),
        Case(at="2m", series={series("llmgw_store_write_failing", _RECORDS): "1 0 0 0"}),
        Case(at="2m", series={series("llmgw_store_write_failing", _RECORDS): "0x10"}),
    ),
)

GROUP = Group(
    name="llmgw-control",
    title="llmgw itself",
    alerts=(TARGET_DOWN, NO_LEADER, GATEWAY_AWAY, PASS_FAILING, PASS_STOPPED, NOT_WRITTEN),
)
