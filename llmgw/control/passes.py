"""The background passes of a control plane: what runs again and again while it leads."""

from collections.abc import Callable
from typing import Protocol

from llmgw.base.clock import Clock
from llmgw.base.periodic import Periodic
from llmgw.control import duty
from llmgw.control.agents import Agents
from llmgw.control.catalog import Catalog
from llmgw.control.fleet import Fleet
from llmgw.control.foresight import Foresight
from llmgw.control.gateways import Gateways
from llmgw.control.history import History
from llmgw.control.job_view import JobView
from llmgw.control.jobs import Jobs
from llmgw.control.keys import Keys
from llmgw.control.leader import Leader
from llmgw.control.membership import Membership
from llmgw.control.rates import Rates
from llmgw.control.settings import LiveSettings
from llmgw.control.tasks.engine_loads import TellEngineLoads
from llmgw.control.tasks.engines import NodeSettingsPass
from llmgw.control.tasks.expire import Expire
from llmgw.control.tasks.history import KeepHistory
from llmgw.control.tasks.jobs import JobsPass, Ways
from llmgw.control.tasks.liveness import Liveness
from llmgw.control.tasks.pings import Pings
from llmgw.control.tasks.quotas import LendQuotas
from llmgw.control.tasks.rates import KeepRates
from llmgw.control.tasks.reconcile import Reconcile
from llmgw.control.tasks.traffic import KeepTraffic
from llmgw.control.tokens import Tokens


class Parts(Protocol):
    """What the passes look after: the live objects of a `Plane`."""

    clock: Clock
    fleet: Fleet
    catalog: Catalog
    settings: LiveSettings
    keys: Keys
    tokens: Tokens
    jobs: Jobs
    job_view: JobView
    leadership: Leader
    membership: Membership
    agents: Agents
    gateways: Gateways
    history: History
    rates: Rates
    foresight: Foresight


class _Pass(Protocol):
    """What runs again and again."""

    def period(self) -> float: ...

    async def run(self) -> str: ...


def background(
    of: Parts,
    lead: duty.Lead,
    reconcile: Reconcile,
    *,
    store_away: Callable[[], bool],
    model_changed: Callable[[str], None],
) -> dict[str, Periodic]:
    """Return the passes by name.

    Args:
        of: what they look after.
        lead: the pass that keeps the lease.
        reconcile: the pass that decides.
        store_away: whether the store does not answer.
        model_changed: told the model of which a job has found out something.
    """
    passes: dict[str, _Pass] = {
        duty.LEADER: lead,
        "reconcile": reconcile,
        "liveness": Liveness(of.fleet, of.settings, of.membership.keep, of.clock),
        "engines": NodeSettingsPass(of.agents),
        "expire": Expire(of.fleet, of.keys, of.tokens, of.settings, of.clock),
        "pings": Pings(of.gateways, of.settings, of.fleet.drains),
        "engine-loads": TellEngineLoads(of.gateways, of.fleet.loads, of.settings),
        "quotas": LendQuotas(of.gateways, of.keys, store_away),
        "traffic": KeepTraffic(of.gateways),
        "rates": KeepRates(of.gateways, of.rates, of.clock),
        "history": KeepHistory(of.fleet, of.history, of.clock),
        "jobs": _jobs(of, model_changed),
    }
    return {name: Periodic(name, one.period, one.run, of.clock) for name, one in passes.items()}


def _jobs(of: Parts, model_changed: Callable[[str], None]) -> JobsPass:
    ways = Ways(of.job_view.look, model_changed, of.foresight)
    return JobsPass(
        of.jobs, of.fleet, of.agents, of.catalog, of.leadership, clock=of.clock, ways=ways
    )
