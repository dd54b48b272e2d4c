"""Who leads, and the number under which it commands, which never falls."""

from llmgw.base.errors import Conflict, Refused
from llmgw.store.interface import Claim, Lease

MOST = 1 << 62
"""A term beyond it can't come from counting: it is damage or malice, and 64 bits would overflow."""


def above(term: int, seen: int) -> int:
    """Return a term above one that was seen; one that is higher already stays.

    Raises:
        Refused: what was seen is no term.
    """
    if not 0 <= seen < MOST:
        raise Refused(f"{seen} is no term: not between 0 and {MOST}")
    return max(term, seen + 1)


def is_in_force(lease: Lease, now: Lease | None) -> bool:
    """Say whether a lease that was given once is the one that stands now."""
    return now is not None and now.term == lease.term and now.claim.same(lease.claim)


def lost(lease: Lease, now: Lease | None) -> Conflict:
    """Return the refusal of what only a holder may do."""
    who = "nobody leads now" if now is None else f"{now.claim.server} leads under term {now.term}"
    return Conflict(f"{lease.claim.server} no longer leads under term {lease.term}: {who}")


def check_writer(claim: Claim | None, now: Lease | None) -> None:
    """Refuse a change of whoever does not lead while another does.

    Args:
        claim: whose change it is; None: of one that never asked to lead.
        now: the lease that stands.

    Raises:
        Refused: names the leader.
    """
    if now is not None and (claim is None or not now.claim.same(claim)):
        raise Refused(
            f"{now.claim.server} leads under term {now.term}: nothing was changed here",
            hint=f"ask {now.claim.server}",
        )
