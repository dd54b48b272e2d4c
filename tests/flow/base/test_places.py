"""Where files lie, and who else may read or change them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from llmgw.base.errors import NotFound, Refused
from llmgw.base.places import Places, check_ours, private_dir, read_private, usable_dir
from tests.flow.conftest import NOBODY

XDG = {"HOME": "/h", "XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s", "XDG_CACHE_HOME": "/w"}


@pytest.mark.parametrize("service", ["server", "gateway", "agent"])
def test_a_service_of_the_system_has_its_places_in_etc_and_var_lib(service: str) -> None:
    places = Places.find(service, environ={"HOME": "/root"}, root=True)
    assert places.config == Path(f"/etc/llmgw/{service}.yaml")
    assert places.state == Path(f"/var/lib/llmgw/{service}")
    assert places.weights == Path("/var/lib/llmgw-weights")
    assert places.engines == Path("/var/lib/llmgw/engines")
    assert places.user_config == Path("/root/.config/llmgw")


def test_a_user_has_them_where_xdg_says() -> None:
    places = Places.find("agent", environ=XDG, root=False)
    assert places.config == Path("/c/llmgw/agent.yaml")
    assert places.state == Path("/s/llmgw/agent")
    assert places.weights == Path("/w/llmgw/weights")
    assert places.engines == Path("/w/llmgw/engines")
    assert places.user_config == Path("/c/llmgw")


def test_a_user_without_xdg_variables_has_them_below_home() -> None:
    places = Places.find("server", environ={"HOME": "/h"}, root=False)
    assert places.config == Path("/h/.config/llmgw/server.yaml")
    assert places.state == Path("/h/.local/state/llmgw/server")
    assert places.weights == Path("/h/.cache/llmgw/weights")


@pytest.mark.parametrize("root", [True, False])
def test_a_state_directory_that_is_named_overrides_either(root: bool) -> None:
    places = Places.find("server", environ=XDG, root=root, state=Path("/elsewhere"))
    assert places.state == Path("/elsewhere")


def test_a_private_directory_is_made_0700_and_one_that_lets_others_in_is_refused(
    tmp_path: Path,
) -> None:
    path = private_dir(tmp_path / "state")
    assert path.stat().st_mode & 0o777 == 0o700
    path.chmod(0o750)
    with pytest.raises(Refused, match="mode 750 lets others in") as caught:
        private_dir(path)
    assert caught.value.hint == f"run: chmod 700 {path}"


def test_a_secret_that_others_may_read_is_refused_with_the_command(tmp_path: Path) -> None:
    path = tmp_path / "key"
    with pytest.raises(NotFound, match="no such file"):
        read_private(path)
    path.write_bytes(b"x")
    path.chmod(0o640)
    with pytest.raises(Refused) as caught:
        read_private(path)
    assert caught.value.hint == f"run: chmod 600 {path}"
    path.chmod(0o600)
    assert read_private(path) == b"x"


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_change_is_not_obeyed(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text("")
    path.chmod(0o644)
    check_ours(path)
    path.chmod(mode)
    with pytest.raises(Refused, match=f"mode {mode:o} lets others change it") as caught:
        check_ours(path)
    assert caught.value.hint == f"run: chmod go-w {path}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_or_directory_of_somebody_else_is_refused_with_the_command(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"x")
    path.chmod(0o600)
    os.chown(path, 4242, -1)
    for check in (read_private, check_ours):
        with pytest.raises(Refused, match="belongs to uid 4242") as caught:
            check(path)
        assert caught.value.hint == f"run: chown 0 {path}"
    os.chown(tmp_path, 4242, -1)
    with pytest.raises(Refused, match="belongs to uid 4242"):
        private_dir(tmp_path)
    os.chown(tmp_path, 0, -1)


@pytest.mark.parametrize("kind", [usable_dir, private_dir])
@pytest.mark.parametrize("mode", [0o500, 0o600, 0o300])
def test_a_directory_whose_mode_keeps_its_user_out_is_refused_with_the_command(
    nobodys: Path, kind: Callable[[Path], Path], mode: int
) -> None:
    path = kind(nobodys / "below" / "it")
    path.chmod(mode)
    with pytest.raises(Refused, match=f"mode {mode:o} keeps its own user out") as caught:
        kind(path)
    assert caught.value.hint == f"run: chmod u+rwx {path}"
    path.chmod(0o700)
    assert kind(path) == path


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make one that others may not write")
def test_a_directory_of_somebody_else_is_used_as_far_as_this_user_may(nobodys: Path) -> None:
    path = nobodys / "weights"
    os.seteuid(0)
    path.mkdir()
    path.chmod(0o755)
    os.seteuid(NOBODY)
    words = f"{path}: belongs to uid 0, and uid {NOBODY} may not read and write there"
    with pytest.raises(Refused) as caught:
        usable_dir(path)
    assert (caught.value.message, caught.value.hint) == (words, f"run: chown {NOBODY} {path}")
    os.seteuid(0)
    path.chmod(0o777)
    os.seteuid(NOBODY)
    assert usable_dir(path) == path
