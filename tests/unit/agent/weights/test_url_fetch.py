"""What may be fetched from, and what a transfer is called."""

import pytest

from llmgw.base.errors import Refused
from llmgw_agent.weights.package_fetch import plain_name
from llmgw_agent.weights.url_fetch import file_name


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://example.org/a/tiny.gguf?download=true", "tiny.gguf"),
        ("https://example.org/a/b%20c.gguf", "b_c.gguf"),
        ("https://example.org/%2e%2e/%2e%2e%2fetc%2fpasswd", "passwd"),
        ("https://example.org/..", "weights"),
        ("https://example.org/", "weights"),
        ("https://example.org/.hidden", "hidden"),
    ],
)
def test_a_file_is_named_after_its_address_and_never_leaves_its_directory(url, name):
    assert file_name(url) == name


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc/passwd", ".hidden", "a\0b"])
def test_a_joined_file_has_a_plain_name(name):
    with pytest.raises(Refused, match="no file name"):
        plain_name(name)
