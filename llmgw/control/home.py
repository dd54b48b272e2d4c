"""A control plane's state directory: what lies where, and what an empty one is filled with."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from llmgw.base import log
from llmgw.base.errors import LlmgwError, NotFound, Refused
from llmgw.base.places import Places, private_dir, read_private
from llmgw.base.world import Files
from llmgw.control.certificates import Certificates
from llmgw.control.credentials import Entropy, make
from llmgw.control.tokens import Tokens
from llmgw.link.own import own_certificate
from llmgw.link.tls import TlsFiles, files_in
from llmgw.model.keys import ADMIN
from llmgw.model.settings import Settings
from llmgw.pki.authority import Authority

logger = log.get(__name__)

ACTOR = "llmgw server"
TOKEN_NAME = "admin.token"  # noqa: S105 - a file's name


@dataclass(frozen=True, slots=True)
class Home:
    """The paths below one state directory."""

    state: Path
    user_config: Path
    """Where the command line's contexts lie."""

    @staticmethod
    def find(state_dir: str | None, *, environ: Mapping[str, str], root: bool) -> "Home":
        """Return the state directory, made with mode 0700 when it is not there.

        Raises:
            Refused: it belongs to somebody else, or lets others in.
        """
        state = Path(state_dir).expanduser().absolute() if state_dir else None
        places = Places.find("server", environ=environ, root=root, state=state)
        return Home(state=private_dir(places.state), user_config=places.user_config)

    @property
    def store(self) -> Path:
        """Return the store's file."""
        return self.state / "store.sqlite"

    @property
    def authority(self) -> Path:
        """Return the directory of the cluster's CA."""
        return self.state / "authority"

    @property
    def server(self) -> Path:
        """Return the directory of this control plane's own certificate."""
        return self.state / "server"

    @property
    def gateway(self) -> Path:
        """Return the directory of the certificate for the gateway on this machine."""
        return self.state / "gateway"

    @property
    def admin_token(self) -> Path:
        """Return the file that holds an operator's token with the role admin."""
        return self.state / TOKEN_NAME

    def load_authority(self, files: Files, now: float) -> tuple[Authority, bool]:
        """Return the cluster's CA and whether it was made just now, for a new cluster.

        Raises:
            Refused: there is a store and no CA, or a CA that was served under and no store: half
                of a cluster's state is missing.
        """
        try:
            authority = Authority.load(self.authority)
            self._check_store(files)
            return authority, False
        except NotFound as error:
            if self.store.exists():
                raise Refused(
                    f"{self.state}: there is a store and no CA",
                    hint=f"bring {self.authority} back from a copy, or start on an empty directory",
                ) from error
        private_dir(self.authority)
        authority = Authority.create(Settings().cluster.name, now)
        authority.save(self.authority, files)
        return authority, True

    def _check_store(self, files: Files) -> None:
        """Refuse to begin an empty store in the place of one that is lost.

        Every engine would be stopped, since its model is in no catalog, and nodes that were removed
        would be let in again. The certificate is written once a store is there.
        """
        served = files_in(self.server).certificate.exists()
        if served and not files.size(self.store):
            raise Refused(
                f"{self.store}: is missing or empty, and this control plane has served before",
                hint="bring it back from a copy; or, to begin anew without models, keys and "
                f"denied certificates, remove {self.server}",
            )

    async def load_admin_token(self, tokens: Tokens, files: Files, entropy: Entropy) -> None:
        """See that there is a token to begin with: the one in the file, which is made if need be.

        Once there are tokens in the store the file is nothing but a copy of one, and is left alone.
        """
        if tokens.all():
            return
        try:
            text = read_private(self.admin_token).decode().strip()
        except NotFound:
            text = make("admin", entropy).text
            files.write(self.admin_token, f"{text}\n".encode())
        await tokens.adopt(text, ADMIN, TOKEN_NAME, actor=ACTOR)
        logger.info("the admin token is there", file=str(self.admin_token))


class OwnCertificates:
    """The certificates of this machine's own control plane and gateway.

    Args:
        certificates: signs and keeps on record.
        files: where they are written.
    """

    def __init__(self, certificates: Certificates, files: Files) -> None:
        self._certificates = certificates
        self._files = files

    async def see_to(
        self,
        directory: Path,
        role: str,
        subject: str,
        *,
        now: float,
        addresses: tuple[str, ...] = (),
        anew: bool = False,
    ) -> bool:
        """Issue a certificate when there is none that will do; return whether it was.

        Args:
            directory: where it lies.
            role: the certificate's.
            subject: the certificate's.
            now: wall-clock seconds.
            addresses: what it covers.
            anew: whatever is there: the addresses may be others than at the last start.
        """
        if not anew and self._lasts(files_in(directory), subject, now):
            return False
        private_dir(directory)
        signed = self._certificates.authority.issue(
            directory,
            role=role,
            subject=subject,
            addresses=addresses,
            now=now,
            lifetime=self._certificates.lifetime,
            files=self._files,
        )
        await self._certificates.keep(signed, role, subject)
        return True

    def _lasts(self, files: TlsFiles, subject: str, now: float) -> bool:
        try:
            own = own_certificate(files)
        except LlmgwError:
            return False
        denied = self._certificates.denied(own.identity.serial)
        return own.identity.id == subject and not denied and now < own.renew_at
