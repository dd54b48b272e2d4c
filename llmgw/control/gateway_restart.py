"""An operator has a gateway's workers restarted: told over its stream, and audited."""

from llmgw.base.clock import Clock
from llmgw.base.errors import NotFound, Refused, Unreachable
from llmgw.control.gateways import Gateways
from llmgw.model.events import AuditEntry
from llmgw.model.gateway import RESTARTS, Gateway, RestartWorkers
from llmgw.model.link import GatewayControl
from llmgw.store.interface import Store

ACTION = "gateway.restart"


async def restart_workers(
    gateways: Gateways, store: Store, clock: Clock, name: str, *, actor: str
) -> Gateway:
    """Tell a gateway to replace its workers, and return it as it was before.

    Raises:
        NotFound: there is none of that id.
        Unreachable: it is not connected.
        Refused: it is of an earlier release and can't be told.
    """
    known = next((one for one in gateways.all() if one.id == name), None)
    if known is None:
        raise NotFound(f"no gateway {name!r}", hint="list them: llmgw ctl gateways")
    session = gateways.session(name)
    if session is None:
        raise Unreachable(
            f"gateway {name} is not connected",
            hint="on its machine: systemctl kill -s HUP --kill-whom=main llmgw-gateway",
        )
    if RESTARTS not in (session.register.features or ()):
        raise Refused(
            f"gateway {name} is of version {known.version}, which can't be told to restart workers",
            hint="on its machine: systemctl kill -s HUP --kill-whom=main llmgw-gateway",
        )
    # Audited first: what can't be put on record is not done.
    await store.put_audit(AuditEntry(at=clock.now(), actor=actor, action=ACTION, subject=name))
    session.stream.send(GatewayControl(restart_workers=RestartWorkers(actor=actor)))
    return known
