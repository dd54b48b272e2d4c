"""This gateway's certificate: found or got by joining, and renewed while the stream lives."""

import os
import ssl
from collections.abc import Sequence
from pathlib import Path

import msgspec

from llmgw.base.errors import LlmgwError, NotFound, Refused, Unreachable, Usage
from llmgw.base.log import get
from llmgw.base.system import SystemFiles
from llmgw.gateway.config import DEFAULT_LINK, GatewayServiceConfig
from llmgw.link.enrol import Own, TokenText, join, keep, make_key_and_csr, own_certificate
from llmgw.link.identity import GATEWAY, Identity
from llmgw.link.tls import TlsFiles, client_context, files_in
from llmgw.model.link import CertificateIssued, CertificateRequest

log = get(__name__)

ASK_AGAIN = 1 / 30
"""Share of a certificate's lifetime after which an unanswered renewal is asked for again."""
_DIRECTORY = "link"
_CONTROL_PLANES = "control_planes.json"


class Membership:
    """Who this gateway is in its cluster.

    Args:
        directory: where joining and renewals write.
        own: the certificate in use.
    """

    def __init__(self, directory: Path, own: Own) -> None:
        self._directory = directory
        self._own = own
        self._key: bytes | None = None
        self._asked = float("-inf")

    @property
    def control_planes(self) -> tuple[str, ...]:
        """Return the addresses of control planes that were kept; none if none can be read."""
        try:
            text = SystemFiles().read(self._directory / _CONTROL_PLANES)
            return msgspec.json.decode(text, type=tuple[str, ...])
        except (NotFound, OSError, msgspec.DecodeError):
            return ()

    def remember(self, control_planes: Sequence[str]) -> None:
        """Keep the control planes' addresses for the next start."""
        wanted = tuple(control_planes)
        if wanted in {(), self.control_planes}:
            return
        try:
            SystemFiles().write(self._directory / _CONTROL_PLANES, msgspec.json.encode(wanted))
        except OSError as error:
            log.warning("the control planes' addresses could not be kept", why=str(error))

    @property
    def id(self) -> str:
        """Return the gateway's id."""
        return self._own.identity.id

    @property
    def identity(self) -> Identity:
        """Return what its certificate says."""
        return self._own.identity

    @property
    def ends(self) -> float:
        """Return when its certificate ends, in seconds since the epoch."""
        return self._own.identity.ends

    def context(self) -> ssl.SSLContext:
        """Return the context to dial with; new each time, so that a renewal counts at once."""
        return client_context(self._own.files)

    def request(self, now: float) -> CertificateRequest | None:
        """Return a request for the next certificate when it is time for it.

        Args:
            now: wall-clock seconds.
        """
        lifetime = max(1.0, self.ends - self._own.begins)
        if now < self._own.renew_at or now - self._asked < lifetime * ASK_AGAIN:
            return None
        self._asked = now
        identity = self._own.identity
        self._key, csr = make_key_and_csr(identity.role, identity.id, identity.cluster)
        return CertificateRequest(csr_pem=csr)

    def issued(self, answer: CertificateIssued) -> None:
        """Keep the certificate that was asked for; the next dial shows it."""
        key, self._key = self._key, None
        if key is None:
            return
        try:
            self._own = keep(self._directory, key, answer.certificate_pem, answer.authority_pem)
        except (LlmgwError, OSError) as error:
            log.warning("a renewed certificate could not be kept", why=str(error))
        else:
            log.info("the certificate was renewed", ends=self.ends)


async def enter(config: GatewayServiceConfig, state: Path, token: str | None) -> Membership:
    """Return this gateway's membership, joining first when there is a token.

    Args:
        config: names control planes, and files of its own if it has any.
        state: the state directory.
        token: a one-time token, or None.

    Raises:
        LlmgwError: it has no certificate, or could not join.
    """
    directory = state / _DIRECTORY
    if token is None:
        own = _newest(_written(config), files_in(directory))
    else:
        own = await _join(config.control_planes, TokenText.parse(token), directory)
    if own.identity.role != GATEWAY:
        raise Refused(
            f"{own.files.certificate}: is the certificate of {own.identity}, not of a gateway",
            hint="make a token for it: llmgw ctl gateway token NAME",
        )
    membership = Membership(directory, own)
    if token is not None:
        membership.remember(config.control_planes)
    return membership


def beside(config: GatewayServiceConfig, state: Path, server: Path) -> GatewayServiceConfig:
    """Return the configuration, completed for a gateway beside this machine's control plane.

    A control plane makes a certificate for the gateway on its own machine. A gateway that is told
    nothing and never joined another way uses it.

    Args:
        config: what was written; changed only if it names no control plane and no files.
        state: the gateway's state directory.
        server: the state directory of this machine's control plane, if there is one.
    """
    kept, made = files_in(state / _DIRECTORY), files_in(server / "gateway")
    told = config.control_planes or config.certificate or config.key or config.authority
    if told or not os.access(made.certificate, os.R_OK):
        return config
    if kept.certificate.exists() and not _same_member(kept, made):
        return config
    return msgspec.structs.replace(
        config,
        control_planes=(DEFAULT_LINK,),
        certificate=str(made.certificate),
        key=str(made.key),
        authority=str(made.authority),
    )


def _same_member(one: TlsFiles, other: TlsFiles) -> bool:
    return (
        own_certificate(one).identity.id == own_certificate(other).identity.id
        and one.authority.read_bytes() == other.authority.read_bytes()
    )


def _written(config: GatewayServiceConfig) -> TlsFiles | None:
    paths = (config.certificate, config.key, config.authority)
    if all(path is None for path in paths):
        return None
    certificate, key, authority = paths
    if certificate is None or key is None or authority is None:
        raise Usage("certificate, key and authority are given all three or not at all")
    return TlsFiles(Path(certificate), Path(key), Path(authority))


def _newest(written: TlsFiles | None, kept: TlsFiles) -> Own:
    """Return the certificate that the configuration names, or a renewal of it that was kept."""
    if written is None:
        return own_certificate(kept)
    own = own_certificate(written)
    try:
        renewed = own_certificate(kept)
        same = written.authority.read_bytes() == kept.authority.read_bytes()
    except (LlmgwError, OSError):
        return own
    return renewed if same and renewed.identity.ends > own.identity.ends else own


async def _join(control_planes: Sequence[str], token: TokenText, directory: Path) -> Own:
    if not control_planes:
        raise Usage("no control plane is named", hint="add --server HOST:7442")
    unreachable: Unreachable | None = None
    for address in control_planes:
        try:
            return await join(address, token, directory)
        except Unreachable as error:
            unreachable = error
    assert unreachable is not None  # noqa: S101 - there is at least one address
    raise unreachable
