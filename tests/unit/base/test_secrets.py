import pickle
import traceback

import pytest

from llmgw.base.secrets import HIDDEN, Secret, hide, redact

KEY = "llmgw_k3y01d_" + "aB3-_" * 8
TOKEN = "llmgw1." + "0f" * 32 + ".t0k3n." + "Zz9_-" * 6


@pytest.mark.parametrize(
    "text",
    [
        f"key is {KEY}!",
        f"join with {TOKEN}",
        f"Authorization: Bearer {KEY}",
        "authorization: basic dXNlcjpwYXNzd29yZA==",
        "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg\n",
    ],
)
def test_every_kind_of_secret_is_hidden_in_a_text(text: str) -> None:
    hidden = redact(text)
    assert HIDDEN in hidden
    for secret in ("aB3-_aB3", "Zz9_-Zz9", "dXNlcjpwYXNz", "MIGHAgEA"):
        assert secret not in hidden


def test_the_id_of_a_key_stays_readable() -> None:
    assert "llmgw_k3y01d_" in redact(KEY)


def test_text_without_a_secret_is_left_alone() -> None:
    text = "gpu-03: 8 GB of memory, needs 24; llmgw_gpu_power_watts 312"
    assert redact(text) == text


def test_a_secret_shows_itself_nowhere() -> None:
    secret = Secret("hunter2hunter2")
    assert "hunter2" not in f"{secret} {secret!r} {[secret]}"
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    trace = "".join(traceback.format_exception(RuntimeError(secret)))
    assert "RuntimeError" in trace
    assert "hunter2" not in trace
    assert secret.reveal() == "hunter2hunter2"


@pytest.mark.parametrize(
    "name", ["key", "api_key", "token", "engine_secret", "password", "authorization", "csr_pem"]
)
def test_values_under_a_telling_name_are_hidden_whatever_they_hold(name: str) -> None:
    assert hide(name, "short") == HIDDEN
    assert hide(name, ["a", "b"]) == HIDDEN


def test_values_under_other_names_are_searched_for_secrets() -> None:
    assert hide("reason", "plain") == "plain"
    assert "aB3" not in str(hide("body", {"text": KEY}))
    assert hide("tokens", 12) == 12
