"""The store in memory keeps what gateways counted as every store must."""

import pytest

from llmgw.store.interface import Store
from tests.fakes.memory_store import MemoryStore
from tests.flow.store.traffic_conformance import TrafficConformance


class MemoryPlace:
    def __init__(self) -> None:
        self._store = MemoryStore()

    def store(self) -> Store:
        return self._store


class TestMemory(TrafficConformance):
    @pytest.fixture
    def place(self) -> MemoryPlace:
        return MemoryPlace()

    @pytest.fixture
    async def store(self, place: MemoryPlace) -> Store:
        return place.store()
