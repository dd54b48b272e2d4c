"""What each service is told: flag > `LLMGW_*` > file > default, and what is refused before."""

import importlib
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from llmgw.base.errors import LlmgwError, NotFound, Refused, Unreadable
from llmgw.base.places import Places
from llmgw.cli.main import app
from llmgw.control.config import ServerConfig
from llmgw.gateway.config import GatewayServiceConfig
from llmgw_agent.config import AgentConfig

RUN = {
    "server": "llmgw.control.server",
    "gateway": "llmgw.gateway.start",
    "agent": "llmgw_agent.main",
}
FIELD = {"server": "admin", "gateway": "listen", "agent": "node"}
EACH = pytest.mark.parametrize("service", list(RUN))


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[object]:
    """Take the place of every service; what each would have been started with."""
    seen: list[object] = []

    def run(config: object, **more: object) -> int:
        seen.append(config)
        return 0

    for module in RUN.values():
        monkeypatch.setattr(importlib.import_module(module), "run", run)
    for name in [name for name in os.environ if name.startswith("LLMGW_")]:
        monkeypatch.delenv(name)
    for service in RUN:
        places = Places.find(service, environ={"HOME": str(tmp_path)}, root=False)
        places.config.parent.mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(
        Places,
        "find",
        lambda service, **more: _places(service, tmp_path),
    )
    return seen


def _places(service: str, home: Path) -> Places:
    config = home / ".config" / "llmgw" / f"{service}.yaml"
    return Places(config=config, state=home, weights=home, engines=home, user_config=home)


def ran(*argv: str) -> None:
    result = CliRunner().invoke(app, list(argv), catch_exceptions=True)
    if isinstance(result.exception, LlmgwError):
        raise result.exception
    assert result.exit_code == 0, result.output


@EACH
def test_a_flag_beats_a_variable_beats_the_file_beats_the_default(
    service: str, started: list[object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    field = FIELD[service]
    ran(service)
    file = _places(service, tmp_path).config
    file.write_text(f"{field}: 127.0.0.1:1")
    ran(service)
    monkeypatch.setenv(f"LLMGW_{field.upper()}", "127.0.0.1:2")
    ran(service)
    ran(service, f"--{field}", "127.0.0.1:3")
    default, *others = [getattr(config, field) for config in started]
    assert others == ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"]
    assert default not in others


@EACH
def test_a_file_that_is_named_takes_the_place_of_the_one_that_is_found(
    service: str, started: list[object], tmp_path: Path
) -> None:
    _places(service, tmp_path).config.write_text("nonsense: true")
    other = tmp_path / "other.yaml"
    with pytest.raises(NotFound, match=f"{other}: no such file"):
        ran(service, "--config", str(other))
    other.write_text("log_level: debug")
    ran(service, "--config", str(other))
    assert [getattr(config, "log_level", None) for config in started] == ["debug"]


@EACH
def test_a_file_that_others_may_change_is_not_obeyed(
    service: str, started: list[object], tmp_path: Path
) -> None:
    file = _places(service, tmp_path).config
    file.write_text("log_level: debug")
    file.chmod(0o666)
    with pytest.raises(Refused, match="mode 666 lets others change it"):
        ran(service)
    assert started == []


@EACH
def test_a_setting_of_the_cluster_is_refused_by_name(
    service: str, started: list[object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = _places(service, tmp_path).config
    file.write_text("link: {lost_after: 5}")
    with pytest.raises(Unreadable, match=r"link\.lost_after: is a setting of the cluster"):
        ran(service)
    file.write_text("")
    monkeypatch.setenv("LLMGW_SERVING_STOPPED", "1")
    with pytest.raises(Unreadable, match="LLMGW_SERVING_STOPPED: is a setting of the cluster"):
        ran(service)
    assert started == []


def test_an_unknown_field_is_refused_with_its_file_and_the_nearest(
    started: list[object], tmp_path: Path
) -> None:
    file = _places("gateway", tmp_path).config
    file.write_text("workrs: 3")
    with pytest.raises(Unreadable, match=f"{file}: workrs: no such field") as caught:
        ran("gateway")
    assert "did you mean 'workers'?" in caught.value.message


def test_every_mistake_of_a_file_is_named_at_once(started: list[object], tmp_path: Path) -> None:
    file = _places("gateway", tmp_path).config
    file.write_text("workrs: 3\nlisten: 7\nlog_level: [a]")
    with pytest.raises(Unreadable) as caught:
        ran("gateway")
    for path in ("workrs", "listen", "log_level"):
        assert f"{path}: " in caught.value.message
    assert started == []


def test_ports_are_those_that_are_written_everywhere() -> None:
    assert GatewayServiceConfig().listen == "0.0.0.0:7440"
    assert ServerConfig().admin == "127.0.0.1:7441"
    assert ServerConfig().link == "0.0.0.0:7442"
    assert AgentConfig().engine_ports == "7500-7999"
