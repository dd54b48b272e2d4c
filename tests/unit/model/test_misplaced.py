"""A setting of the cluster in a service's own file, or in a variable, is refused by its name."""

import pytest

from llmgw.base.errors import Unreadable
from llmgw.control.config import ServerConfig
from llmgw.gateway.config import GatewayServiceConfig
from llmgw.model.misplaced import refuse_cluster_settings
from llmgw_agent.config import AgentConfig

SERVICES = pytest.mark.parametrize("service", [ServerConfig, GatewayServiceConfig, AgentConfig])


def refused(service: type, written: object, environ: dict[str, str]) -> tuple[str, str | None]:
    with pytest.raises(Unreadable) as caught:
        refuse_cluster_settings(service, written, "f.yaml", environ)
    return caught.value.message, caught.value.hint


@SERVICES
def test_a_file_with_a_setting_of_the_cluster_is_told_the_command(service: type) -> None:
    message, hint = refused(service, {"reconcile": {"settling": 3}}, {})
    assert (
        message == "f.yaml: reconcile.settling: is a setting of the cluster and can't be set here"
    )
    assert hint == "set it for all: llmgw ctl config set reconcile.settling VALUE"


@SERVICES
def test_a_group_that_shares_its_name_with_a_field_is_told_apart(service: type) -> None:
    message, _ = refused(service, {"link": {"lost_after": 3}}, {})
    assert message.startswith("f.yaml: link.lost_after: is a setting of the cluster")


@SERVICES
def test_a_variable_with_a_setting_of_the_cluster_is_refused_by_its_name(service: type) -> None:
    message, hint = refused(service, {}, {"LLMGW_LINK_HEARTBEAT_INTERVAL": "2"})
    assert message.startswith("LLMGW_LINK_HEARTBEAT_INTERVAL: is a setting of the cluster")
    assert hint is not None
    assert "link.heartbeat_interval" in hint


def test_what_a_service_needs_to_start_is_its_own() -> None:
    refuse_cluster_settings(ServerConfig, {"link": "0.0.0.0:1"}, "f", {"LLMGW_LINK": "0.0.0.0:1"})
    refuse_cluster_settings(AgentConfig, {"engines": {"llamacpp": "/x"}}, "f", {})
    refuse_cluster_settings(AgentConfig, {"nod": "a"}, "f", {"LLMGW_STATE": "x"})
    refuse_cluster_settings(AgentConfig, ["no", "mapping"], "f", {})
