"""Request targets: any name fits into a path, and nothing else changes."""

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.client.interface import target


@pytest.mark.parametrize(
    ("path", "query", "wanted"),
    [
        ("/nodes", None, "/api/v1/nodes"),
        ("/api/v1/nodes", None, "/api/v1/nodes"),
        ("/healthz", None, "/healthz"),
        ("/models/qwen/a:b.c", None, "/api/v1/models/qwen/a:b.c"),
        ("/models/a b?c#d%2f", None, "/api/v1/models/a%20b%3Fc%23d%252f"),
        ("/models/../keys/./é", None, "/api/v1/models/%2E%2E/keys/%2E/%C3%A9"),
        ("/list", {"topics": ("nodes", "keys")}, "/api/v1/list?topics=nodes,keys"),
        ("/x", {"a": None, "b": 1.5, "c": "d&e=f"}, "/api/v1/x?b=1.5&c=d%26e%3Df"),
        ("/x", {"a": None}, "/api/v1/x"),
    ],
)
def test_paths_and_queries_become_targets(
    path: str, query: dict[str, object] | None, wanted: str
) -> None:
    assert target(path, query) == wanted


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_name_comes_back_as_it_was(name: str) -> None:
    made = target(f"/models/{name}")
    assert made.isascii()
    assert made.isprintable()
    assert "?" not in made
    assert unquote(made) == f"/api/v1/models/{name}"
