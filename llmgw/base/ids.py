"""Ids that people can read and type. The random source comes in as an argument."""

import random
import re

CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base32 alphabet, lower case: no i, l, o, u, so that nobody mistypes an id."""

_NOT_SLUG = re.compile(r"[^a-z0-9]+")


def crockford(rng: random.Random, length: int) -> str:
    """Return `length` random characters of Crockford's base32."""
    return "".join(rng.choice(CROCKFORD) for _ in range(length))


def slug(name: str, most: int = 40) -> str:
    """Return a name of `a-z0-9-` for a public name that may hold `/ : .` and anything else."""
    return _NOT_SLUG.sub("-", name.lower()).strip("-")[:most].strip("-") or "model"


def replica_id(model: str, rng: random.Random) -> str:
    """Return a new replica's id: `<model slug>-<6 of Crockford base32>`."""
    return f"{slug(model)}-{crockford(rng, 6)}"


def shard_id(replica: str, rank: int) -> str:
    """Return a shard's id: `<replica>/<rank>`."""
    return f"{replica}/{rank}"
