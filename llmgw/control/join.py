"""How machines get their first certificate: a one-time token, bound to a role and an id."""

import re
from collections import deque

from llmgw.base import log
from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError, NotFound, Refused, Unreadable
from llmgw.control.certificates import Certificates
from llmgw.control.credentials import Entropy
from llmgw.control.events import Events
from llmgw.control.settings import LiveSettings
from llmgw.model.bounds import shortened
from llmgw.model.events import WARNING
from llmgw.model.keys import JoinToken
from llmgw.model.link import AuthorityAnswer, JoinAnswer, JoinRequest
from llmgw.pki.authority import GATEWAY, NODE
from llmgw.pki.authority import ROLES as CERTIFICATE_ROLES
from llmgw.pki.tokens import make_join_token, secret_matches
from llmgw.store.interface import Store

logger = log.get(__name__)

BY_TOKEN = (NODE, GATEWAY)
"""Roles that a machine gets by token. A control plane's opens everything: it goes over ssh."""

_ID = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")

_UNKNOWN = "this token is not known here, or its secret is wrong"
"""One sentence for both: whoever guesses ids learns nothing."""


TOLD = 10
"""Refusals that become events within `TOLD_WITHIN` seconds."""
TOLD_WITHIN = 60.0


class Joining:
    """Makes one-time tokens and trades them for certificates."""

    def __init__(
        self,
        store: Store,
        certificates: Certificates,
        settings: LiveSettings,
        events: Events,
        *,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self._store = store
        self._certificates = certificates
        self._settings = settings
        self._events = events
        self._clock = clock
        self._entropy = entropy
        self._told: deque[float] = deque(maxlen=TOLD)
        self._untold = 0

    async def token(self, role: str, subject: str, *, actor: str) -> tuple[JoinToken, str]:
        """Make a one-time token; the text is shown once and kept nowhere.

        Raises:
            Unreadable: no such role, or the subject can't be an id.
            Refused: the role is not given by token.
        """
        if role not in CERTIFICATE_ROLES:
            raise Unreadable(
                f"no such role: {shortened(role, 60)!r}", hint=f"roles are {', '.join(BY_TOKEN)}"
            )
        if role not in BY_TOKEN:
            raise Refused(f"the role {role!r} is not given by token, only {', '.join(BY_TOKEN)}")
        if not _ID.fullmatch(subject):
            raise Unreadable(
                f"{shortened(subject, 60)!r} can't be the id of a {role}",
                hint="an id is 1 to 253 of a-z, 0-9, . and -, like a host name",
            )
        token, text = make_join_token(
            self._certificates.authority,
            role=role,
            subject=subject,
            now=self._clock.now(),
            lifetime=self._settings.current.settings.certificates.join_token_lifetime,
            random_bytes=self._entropy,
        )
        await self._store.put_join_token(token, actor=actor, at=self._clock.now())
        return token, text

    async def authority(self) -> AuthorityAnswer:
        """Tell the cluster's name and CA."""
        authority = self._certificates.authority
        return AuthorityAnswer(cluster=authority.cluster, authority_pem=authority.certificate_pem)

    async def join(self, request: JoinRequest, peer: str) -> JoinAnswer:
        """Trade a token for a certificate; the token is used up only when one was signed.

        Raises:
            Refused: the token is not known, was used, ended, or is for another role or id.
            Unreadable: there is no signing request.
        """
        try:
            answer = await self._join(request)
        except LlmgwError as error:
            self._tell_refused(peer, error)
            raise
        subject = f"{answer.role} {answer.subject}"
        self._events.add("join", answer.subject, f"{subject} joined from {peer}")
        return answer

    def _tell_refused(self, peer: str, error: LlmgwError) -> None:
        """Make an event of a refusal, but not of each of a flood.

        Anybody may ask to join: nobody may fill the store and push what happened out of view.
        """
        now = self._clock.monotonic()
        if len(self._told) == self._told.maxlen and now - self._told[0] < TOLD_WITHIN:
            self._untold += 1
            return
        more = f" ({self._untold} more refusals were not told)" if self._untold else ""
        self._told.append(now)
        self._untold = 0
        words = f"{peer} could not join: {error.message}{more}"
        self._events.add("join", peer, words, severity=WARNING)

    async def _join(self, request: JoinRequest) -> JoinAnswer:
        token = await self._known(request)
        if token.role not in BY_TOKEN:
            raise Refused(f"the role {token.role!r} is not given by token")
        now = self._clock.now()
        if token.used is not None or token.expires <= now:
            what = "was used already" if token.used is not None else "has ended"
            raise Refused(
                f"this token for {token.role} {token.subject} {what}",
                hint=f"make a new one: llmgw ctl {token.role} token {token.subject}",
            )
        signed = self._certificates.prepare(request.csr_pem, token.role, token.subject)
        await self._store.use_join_token(token.id, at=now)
        await self._certificates.keep(signed, token.role, token.subject)
        authority = self._certificates.authority
        return JoinAnswer(
            cluster=authority.cluster,
            role=token.role,
            subject=token.subject,
            certificate_pem=signed.certificate_pem,
            authority_pem=authority.certificate_pem,
        )

    async def _known(self, request: JoinRequest) -> JoinToken:
        try:
            token = await self._store.join_token(request.token)
        except NotFound as error:
            raise Refused(_UNKNOWN) from error
        if not secret_matches(token, request.secret):
            raise Refused(_UNKNOWN)
        return token
