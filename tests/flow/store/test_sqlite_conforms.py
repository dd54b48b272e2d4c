"""The SQLite store does what every store must do."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from llmgw.store.interface import Store
from llmgw.store.sqlite import SqliteStore
from tests.flow.store.every import EveryConformance
from tests.flow.store.lease_conformance import ExclusiveConformance
from tests.flow.store.stateful import StoreAgainstModel


class SqlitePlace:
    def __init__(self, directory: Path) -> None:
        self.path = directory / "state" / "llmgw.db"

    def store(self) -> Store:
        return SqliteStore(self.path, version="0.1.0")


class TestSqlite(EveryConformance, ExclusiveConformance):
    @pytest.fixture
    def place(self, tmp_path: Path) -> SqlitePlace:
        return SqlitePlace(tmp_path)


class SqliteAgainstModel(StoreAgainstModel):
    def __init__(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        super().__init__()

    def new_place(self) -> SqlitePlace:
        return SqlitePlace(Path(self.directory.name))

    def teardown(self) -> None:
        super().teardown()
        self.directory.cleanup()


TestSqliteAgainstModel = SqliteAgainstModel.TestCase
TestSqliteAgainstModel.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
