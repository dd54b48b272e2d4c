"""The two bases of every record. msgspec does not inherit `kw_only`: each record says it again."""

import msgspec


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False, gc=False):
    """What machines send: fields that this version does not know are skipped.

    A record holds only what was there before it, so it is in no cycle and the collector need not
    look at it: a fleet has a hundred thousand, and to look at them all stops the loop.
    """


class Written(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=False
):
    """What people write: a field that is not known is refused with its path."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing wrong with something that a person wrote."""

    path: str
    """Where: `profiles[0].gpus`; empty for the whole."""
    words: str
    """What, and what to do about it."""
