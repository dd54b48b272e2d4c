"""What users' connections are encrypted with: nothing, files of one's own, or the cluster's."""

from collections.abc import Callable
from pathlib import Path

from llmgw.base.log import get
from llmgw.gateway.config import CLUSTER, GatewayServiceConfig
from llmgw.gateway.frames import Identity
from llmgw.gateway.membership import Membership
from llmgw.gateway.tls import certificate_of
from llmgw.gateway.users_certificate import UsersCertificate

log = get(__name__)

_DIRECTORY = "users"


class Shown:
    """The certificate that users are shown.

    Args:
        config: says which.
        state: the state directory.
        membership: who the gateway is.
        changed: told of another one, and whether it is the first that there is.

    Raises:
        LlmgwError: files of one's own can't be used.
    """

    def __init__(
        self,
        config: GatewayServiceConfig,
        state: Path,
        membership: Membership,
        changed: Callable[[Identity, bool], None],
    ) -> None:
        self._changed = changed
        self._files = certificate_of(config)
        self.of_cluster = (
            UsersCertificate(state / _DIRECTORY, lambda: membership.identity, changed)
            if config.tls == CLUSTER
            else None
        )

    @property
    def identity(self) -> Identity | None:
        """Return what is shown now; None when users connect without TLS, or cannot yet."""
        source = self._files or self.of_cluster
        return None if source is None else source.identity

    @property
    def is_awaited(self) -> bool:
        """Say whether nobody is listened to because there is no certificate yet."""
        return self.of_cluster is not None and self.of_cluster.identity is None

    async def look(self) -> str:
        """Read the files again when they changed."""
        found = None if self._files is None else self._files.changed()
        if found is None:
            return "the certificate is the one in its file"
        log.info("the certificate was read again")
        self._changed(found, False)
        return "the certificate was read again"
