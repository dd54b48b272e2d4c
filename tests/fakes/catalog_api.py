"""A control plane that answers the command line about two models, without a socket."""

from typing import Any

import msgspec

from llmgw.base.errors import Conflict, NotFound
from llmgw.client.interface import Version
from llmgw.model.catalog import Model, Profile

MODEL = Model(
    name="org/qwen",
    profiles=(
        Profile(engine="simulated", replicas=1, max_replicas=3, min_memory_gb=4, cpu_cores=2),
    ),
)
TWO = Model(
    name="two",
    profiles=(Profile(engine="simulated"), Profile(name="b", engine="simulated", gpus=1)),
)


class CatalogApi:
    """A control plane with two models and one replica; it notes what is put."""

    def __init__(self) -> None:
        self.models: dict[str, Model] = {"org/qwen": MODEL, "two": TWO}
        self.put_: list[tuple[Model, Version]] = []
        self.meanwhile: Model | None = None
        """What somebody else makes of a model before what comes is put."""
        self.deleted: list[str] = []
        self.ends: dict[str, str] = {}
        """Replicas that a plan gives up, and why."""
        shard = {"rank": 0, "node": "n1", "memory_bytes": 4 * 10**9, "cpu_cores": 2}
        self.plan: dict[str, Any] | None = None
        self.replicas: list[dict[str, Any]] = [
            {
                "id": "qwen-1",
                "model": "org/qwen",
                "state": "ready",
                "shards": [shard],
                "in_flight": 3,
            }
        ]
        use = {"replica": "qwen-1", "rank": 0, "cpu_cores": 3.2, "memory_bytes": 39 * 10**8}
        self.samples = [{"id": "n1", "at": 0.0, "heartbeat": {"sequence": 1, "shards": [use]}}]

    def get(self, path: str, query: object = None) -> object:
        if path == "/replicas":
            return self.replicas
        if path == "/plan":
            return self.plan
        if path == "/list":
            return {"topics": {"replicas": self.replicas, "samples": self.samples}}
        model = self.models.get(path.removeprefix("/models/"))
        if model is None:
            raise NotFound(f"nothing at {path}")
        entry = {"model": msgspec.to_builtins(model), "version": 7}
        return {**entry, "changed": 0.0, "changed_by": "ada"}

    def post(self, path: str, body: object = None) -> object:
        assert path == "/plan/model"
        model = msgspec.convert(body, Model)
        gives_up = [
            {"replica": one, "model": model.name, "kind": "drain", "words": words}
            for one, words in self.ends.items()
        ]
        return {
            "model": model.name,
            "words": "starts 1 replica: n1 [CPU]",
            "starts": [{"shards": [{"node": "n1", "devices": []}]}],
            "gives_up": gives_up,
            "profiles": [{"profile": one.name, "refusal": None} for one in model.profiles],
        }

    def delete(self, path: str) -> None:
        self.deleted.append(path)

    def put(self, path: str, body: object, *, version: Version = None) -> object:
        if self.meanwhile is not None:
            self.models[self.meanwhile.name] = self.meanwhile
            raise Conflict("its version is 8 meanwhile")
        model = msgspec.convert(body, Model)
        assert path == f"/models/{model.name}"
        self.put_.append((model, version))
        return {"model": body, "version": 8, "changed": 0.0, "changed_by": "ada"}

    @property
    def profile(self) -> Profile:
        """Return the first profile of the one model that was put, under the version read."""
        ((model, version),) = self.put_
        assert version == 7
        return model.profiles[0]
