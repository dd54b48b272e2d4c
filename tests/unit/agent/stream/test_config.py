"""What an agent's own file may say, and what is refused before anything starts."""

import pytest

from llmgw.base.errors import Usage
from llmgw_agent.config import AgentConfig, check_config


def test_an_empty_file_is_enough():
    check_config(AgentConfig())


@pytest.mark.parametrize("node", ["gpu-01", "a", "gpu-01.lab.example.org", "n" * 253])
def test_host_names_in_lower_case_are_ids(node):
    check_config(AgentConfig(node=node))


@pytest.mark.parametrize("node", ["", "GPU-01", "gpu 01", "-gpu", "gpu-", "a/b", "n" * 254, "a\n"])
def test_nothing_else_is_an_id(node):
    with pytest.raises(Usage, match="can't be a node's id"):
        check_config(AgentConfig(node=node))


@pytest.mark.parametrize("address", ["head:7442", "10.0.0.1:1", "[fd00::1]:7442"])
def test_control_planes_are_host_and_port(address):
    check_config(AgentConfig(control_planes=(address,)))


@pytest.mark.parametrize("address", ["head", "head:", ":7442", "head:0", "head:65536", "head:x"])
def test_an_address_without_one_of_them_is_refused(address):
    with pytest.raises(Usage, match="is not an address"):
        check_config(AgentConfig(control_planes=(address,)))


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (AgentConfig(engine_ports="9000-8000"), "'9000-8000' is not a range of ports"),
        (AgentConfig(engines={"llama": "/x"}), "'llama'"),
        (AgentConfig(engines={"simulated": "/x"}), "'simulated'"),
        (AgentConfig(engines={"llamacpp": "bin/x"}), "not an absolute path"),
        (AgentConfig(model_dirs=("models",)), "not an absolute path"),
        (AgentConfig(stuck_after=0.0), "stuck_after: 0 is not more than 0"),
        (AgentConfig(log_level="loud"), "'loud'"),
    ],
)
def test_the_first_thing_that_is_wrong_is_named(config, words):
    with pytest.raises(Usage) as caught:
        check_config(config)
    assert words in caught.value.message
