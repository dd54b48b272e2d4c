"""Which control plane a command speaks to, and with what token."""

import contextlib
import json
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmgw.base.errors import LlmgwError, NotFound, Refused, Unreadable, Usage
from llmgw.base.secrets import Secret
from llmgw.client import contexts
from llmgw.client.contexts import Context, Contexts, Entry

ADMIN = "http://127.0.0.1:7441"
OTHER = "https://cluster.example:7441"
TOKEN = "llmgw_abc_0123456789abcdef0123456789abcdef"
OTHER_TOKEN = "llmgw_def_fedcba9876543210fedcba9876543210"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "llmgw").mkdir(mode=0o700)
    return tmp_path


@pytest.fixture
def file(home: Path) -> Path:
    return home / "llmgw" / "config.yaml"


@pytest.fixture
def token(home: Path) -> Path:
    return private(home / "admin.token", TOKEN + "\n")


def private(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def env(home: Path, **more: str) -> dict[str, str]:
    return {"HOME": "/nowhere", "XDG_CONFIG_HOME": str(home), **more}


def test_what_is_saved_is_read_back(file: Path, token: Path) -> None:
    contexts.save(file, "local", ADMIN + "/", token)
    contexts.save(file, "prod-eu", OTHER, None, current=False)
    assert contexts.read(file) == Contexts(
        current="local",
        contexts={"local": Entry(ADMIN, str(token)), "prod-eu": Entry(OTHER, None)},
    )


def test_the_file_is_private_and_is_yaml(file: Path, token: Path) -> None:
    contexts.save(file, "local", ADMIN, token)
    assert file.stat().st_mode & 0o777 == 0o600
    assert yaml.safe_load(file.read_text())["contexts"]["local"]["server"] == ADMIN
    assert [one.name for one in file.parent.iterdir()] == ["config.yaml"]


def test_the_folder_is_made_private(tmp_path: Path) -> None:
    file = tmp_path / "new" / "llmgw" / "config.yaml"
    contexts.save(file, "local", ADMIN, None)
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_a_file_that_a_person_wrote_is_read(file: Path) -> None:
    private(
        file,
        f"# mine\ncurrent: prod\ncontexts:\n  prod:\n    server: {OTHER}  # the big one\n",
    )
    assert contexts.read(file) == Contexts("prod", {"prod": Entry(OTHER, None)})


def test_no_file_is_no_contexts(file: Path) -> None:
    assert contexts.read(file) == Contexts(None, {})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("contexts: {a: {servr: 'http://h'}}", "contexts.a.servr: no such field"),
        ("contexs: {}", "contexs: no such field"),
        ("contexts: [1]", "contexts"),
        ("current: 3", "current"),
        ("contexts: {a: {server: 3}}", "server"),
        ("contexts: {a: {}}", "server"),
        ("a: b: c", "not YAML"),
        ("!!python/object/apply:os.system [true]", "not YAML"),
        ('{"current": null, "contexts": {"a": {"server": "http://h", "x": "y"}}}', "no such field"),
        ("contexts: {a/b: {server: 'http://h'}}", "is not a name"),
        ("contexts: {a: {server: 'ftp://h'}}", "contexts.a.server"),
        ("- 1", "must be a mapping, is a list"),
    ],
)
def test_what_is_wrong_in_the_file_is_told_with_its_place(
    file: Path, text: str, words: str
) -> None:
    private(file, text)
    with pytest.raises(Unreadable) as told:
        contexts.read(file)
    assert words in told.value.message
    assert str(file) in told.value.message


def test_the_nearest_name_is_told(file: Path) -> None:
    private(file, "contexts: {a: {server: 'http://h', token_fil: x}}")
    with pytest.raises(Unreadable) as told:
        contexts.read(file)
    assert "did you mean 'token_file'?" in told.value.message


def test_bytes_that_are_no_text_are_told(file: Path) -> None:
    file.write_bytes(b"\xff\xfe")
    file.chmod(0o600)
    with pytest.raises(Unreadable, match="not text"):
        contexts.read(file)


def test_a_file_that_others_may_read_is_refused_with_the_remedy(file: Path, token: Path) -> None:
    contexts.save(file, "local", ADMIN, token)
    file.chmod(0o644)
    with pytest.raises(Refused) as told:
        contexts.read(file)
    assert told.value.hint == f"run: chmod 600 {file}"


def test_a_token_that_others_may_read_is_refused_with_the_remedy(file: Path, token: Path) -> None:
    contexts.save(file, "local", ADMIN, token)
    token.chmod(0o640)
    with pytest.raises(Refused) as told:
        contexts.choose(env(file.parent.parent))
    assert told.value.hint == f"run: chmod 600 {token}"


@pytest.mark.parametrize("text", ["", "\n", "two words", "a\nb", "tök", "x" * 600, "a\x00b"])
def test_a_token_file_without_a_token_is_told(home: Path, text: str) -> None:
    path = private(home / "bad.token", text)
    with pytest.raises(Unreadable) as told:
        contexts.read_token(path)
    assert told.value.message == f"{path}: holds no token"


def prepared(home: Path) -> dict[str, str]:
    file = home / "llmgw" / "config.yaml"
    one = private(home / "one.token", TOKEN)
    other = private(home / "other.token", OTHER_TOKEN)
    contexts.save(file, "one", ADMIN, one)
    contexts.save(file, "other", OTHER, other, current=False)
    return {"one": str(one), "other": str(other)}


@pytest.mark.parametrize(
    ("environ", "typed", "name", "server", "secret"),
    [
        ({}, {}, "one", ADMIN, TOKEN),
        ({"LLMGW_CONTEXT": "other"}, {}, "other", OTHER, OTHER_TOKEN),
        ({"LLMGW_CONTEXT": "other"}, {"context": "one"}, "one", ADMIN, TOKEN),
        ({"LLMGW_TOKEN": "tok"}, {}, "one", ADMIN, "tok"),
        ({"LLMGW_TOKEN_FILE": "other"}, {}, "one", ADMIN, OTHER_TOKEN),
        ({"LLMGW_TOKEN": "tok", "LLMGW_TOKEN_FILE": "other"}, {}, "one", ADMIN, "tok"),
        ({"LLMGW_TOKEN": "tok"}, {"token_file": "other"}, "one", ADMIN, OTHER_TOKEN),
        ({"LLMGW_SERVER": OTHER, "LLMGW_TOKEN": "tok"}, {}, None, OTHER, "tok"),
        ({"LLMGW_SERVER": OTHER, "LLMGW_CONTEXT": "one"}, {"context": "one"}, "one", ADMIN, TOKEN),
        ({"LLMGW_SERVER": ADMIN}, {"server": OTHER, "context": "one"}, None, OTHER, None),
    ],
)
def test_what_is_typed_wins_over_the_environment_and_that_over_the_file(
    home: Path,
    environ: dict[str, str],
    typed: dict[str, str],
    name: str | None,
    server: str,
    secret: str | None,
) -> None:
    files = prepared(home)
    environ = {key: files[v] if key == "LLMGW_TOKEN_FILE" else v for key, v in environ.items()}
    typed = {key: files[v] if key == "token_file" else v for key, v in typed.items()}
    chosen = contexts.choose(env(home, **environ), **typed)
    assert chosen == Context(name, server, None if secret is None else Secret(secret))


def test_a_contexts_token_is_sent_to_no_other_server(home: Path) -> None:
    prepared(home)
    assert contexts.choose(env(home, LLMGW_SERVER=OTHER)).token is None
    assert contexts.choose(env(home), server=OTHER).token is None


def test_without_any_context_a_command_says_what_to_do(home: Path) -> None:
    with pytest.raises(Usage) as told:
        contexts.choose(env(home))
    assert "LLMGW_SERVER" in (told.value.hint or "")
    assert str(home) in told.value.message


def test_a_context_that_is_not_there_names_those_that_are(home: Path) -> None:
    prepared(home)
    with pytest.raises(NotFound) as told:
        contexts.choose(env(home), context="prod")
    assert told.value.hint == "there are: one, other"


def test_a_context_can_be_made_current_and_removed(file: Path, home: Path) -> None:
    prepared(home)
    contexts.use(file, "other")
    assert contexts.read(file).current == "other"
    contexts.remove(file, "other")
    assert contexts.read(file) == Contexts(
        current=None, contexts={"one": Entry(ADMIN, str(home / "one.token"))}
    )
    for change in (contexts.use, contexts.remove):
        with pytest.raises(NotFound):
            change(file, "other")


@pytest.mark.parametrize(
    "server",
    [
        "",
        "127.0.0.1:7441",
        "http://",
        "http://h:99999",
        "http://h:x",
        "http://h:0",
        "http://user:secret@h",
        "http://h/api",
        "http://h?x=1",
        "http://h#x",
        "http://h\r\nX: y",
        "http://h h",
        "file:///etc/passwd",
        "http://[::1",
    ],
)
def test_what_is_no_address_is_refused(file: Path, server: str) -> None:
    with pytest.raises(Unreadable):
        contexts.save(file, "local", server, None)
    assert not file.exists()


@pytest.mark.parametrize("server", ["http://h", "https://h:1", "http://[::1]:7441", "http://h/"])
def test_addresses_are_taken_without_a_slash_at_the_end(server: str) -> None:
    assert contexts.check_server(server, "x") == server.rstrip("/")


def test_a_context_does_not_show_its_token() -> None:
    shown = repr(Context("local", ADMIN, Secret(TOKEN)))
    assert TOKEN not in shown


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["http://h", "local", ""]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["current", "contexts", "server", "token_file", "local", "x"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@given(plain)
@settings(
    max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_the_fast_reader_takes_nothing_that_the_strict_one_refuses(
    file: Path, value: object
) -> None:
    private(file, json.dumps(value))
    fast = contexts._plain(json.dumps(value))
    try:
        strict = contexts._strict(json.dumps(value), "file")
    except LlmgwError:
        strict = None
    assert fast is None or fast == strict


@given(st.binary(max_size=80))
@settings(
    max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_no_content_raises_anything_but_unreadable(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    file.chmod(0o600)
    with contextlib.suppress(Unreadable):
        contexts.read(file)
