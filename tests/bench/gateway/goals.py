"""What ours may cost, as ratios to others in the same run."""

from typing import Any

from tests.bench.gateway.measures import BURST, GONE, MEMORY, PACED, SHORT, SIZES

SGLANG, VLLM, NGINX = "sglang-router", "vllm-router", "nginx"
FIRST = SHORT.format(next(iter(SIZES)))

Figures = dict[str, dict[str, Any]]


def judged(figures: Figures) -> list[dict[str, Any]]:
    """Return each goal with what was measured of it; None: not measured."""
    ratios = (
        (FIRST, (SGLANG,), 1.0),
        (FIRST, (VLLM,), 1.5),
        (FIRST, (NGINX,), 6.0),
        (PACED, (SGLANG, VLLM), 0.9),
        (BURST, (SGLANG, VLLM), 0.4),
    )
    goals = [
        _goal(f"{work} <= {most} x {' and '.join(peers)}", _ratio(figures, work, peers), most)
        for work, peers, most in ratios
    ]
    ours = figures["ours"]
    goals.append(_goal(f"{MEMORY} <= 5", ours.get(MEMORY), 5.0))
    goals.append(_goal(f"{GONE} <= 1", ours.get(GONE), 1.0))
    return goals


def _ratio(figures: Figures, work: str, peers: tuple[str, ...]) -> float | None:
    """Return ours to the cheapest of the peers; None unless all were measured."""
    seen = [figures.get(peer, {}).get(work) for peer in peers]
    if not all(seen):
        return None
    return float(figures["ours"][work]["us"] / min(one["us"] for one in seen if one))


def _goal(words: str, value: float | None, most: float) -> dict[str, Any]:
    met = None if value is None else value <= most
    return {"goal": words, "value": value, "most": most, "met": met}
