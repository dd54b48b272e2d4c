"""Records for tests of stores."""

from llmgw.model.catalog import Model, Profile
from llmgw.model.events import Event
from llmgw.model.keys import JoinToken, Key, Token, UsageReport, UsageTotals
from llmgw.model.settings import LinkSettings, ServingSettings, Settings
from llmgw.store.interface import StoredCertificate, StoredNode


def settings(*, stopped: bool = False, interval: float = 5.0) -> Settings:
    return Settings(
        serving=ServingSettings(stopped=stopped), link=LinkSettings(heartbeat_interval=interval)
    )


def model(name: str = "qwen", *, replicas: int = 1, arguments: tuple[str, ...] = ()) -> Model:
    profile = Profile(engine="simulated", replicas=replicas, arguments=arguments)
    return Model(name=name, profiles=(profile,))


def key(key_id: str = "k1", *, name: str = "ana", sha256: str = "ab" * 32) -> Key:
    return Key(id=key_id, sha256=sha256, name=name, created=1.0)


def token(token_id: str = "t1", *, role: str = "admin", name: str = "ana") -> Token:
    return Token(id=token_id, sha256="cd" * 32, role=role, name=name, created=1.0)


def join_token(
    token_id: str = "j1", *, subject: str = "gpu-01", expires: float = 100.0
) -> JoinToken:
    return JoinToken(id=token_id, sha256="ef" * 32, role="node", subject=subject, expires=expires)


def event(event_id: str, *, at: float = 1.0) -> Event:
    return Event(id=event_id, at=at, severity="info", kind="node", subject="gpu-01", words="joined")


def node(node_id: str = "gpu-01", *, first: float = 1.0, last: float = 1.0) -> StoredNode:
    return StoredNode(id=node_id, first_seen=first, last_seen=last)


def certificate(
    serial: str = "0a", *, role: str = "node", subject: str = "gpu-01"
) -> StoredCertificate:
    return StoredCertificate(serial=serial, role=role, subject=subject, ends=1000.0)


def totals(requests: int, *, key_id: str = "k1", model_name: str = "qwen") -> UsageTotals:
    return UsageTotals(
        key=key_id,
        model=model_name,
        requests=requests,
        prompt_tokens=requests * 10,
        completion_tokens=requests * 20,
    )


def report(sequence: int, *said: UsageTotals, boot: str = "b1", worker: int = 0) -> UsageReport:
    return UsageReport(
        gateway="g1", boot=boot, worker=worker, sequence=sequence, totals=tuple(said)
    )
