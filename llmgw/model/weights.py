"""What a set of weights is called in every node's cache: a hash of where it is from."""

import json
import re

import msgspec

from llmgw.model.catalog import HubSource, MirrorSource, PackageSource, PathSource, UrlSource

_CACHE_NAME = re.compile(r"w-[0-9a-f]{32}\Z")
_SAYS_NOTHING_OF_CONTENT = frozenset({"size_bytes"})


def cache_name(source: PackageSource | HubSource | UrlSource | PathSource | MirrorSource) -> str:
    """Return the directory name of a source's weights in a node's cache.

    The same on every node and in the control plane, so that what is wanted can be told from what
    is held. A field that is added to a source later changes no name while it is not set.
    """
    fields = {
        name: value
        for name, value in msgspec.to_builtins(source).items()
        if value not in (None, [], ()) and name not in _SAYS_NOTHING_OF_CONTENT
    }
    import hashlib  # Here: it loads OpenSSL, and whoever only tells names apart needs none.

    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return f"w-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def held_as(
    source: PackageSource | HubSource | UrlSource | PathSource | MirrorSource,
) -> str:
    """Return what a node that holds a source's weights calls them: a path, or the cache name."""
    return source.path if isinstance(source, PathSource) else cache_name(source)


def is_cache_name(name: str) -> bool:
    """Say whether a directory name has the form that `cache_name` gives."""
    return _CACHE_NAME.match(name) is not None
