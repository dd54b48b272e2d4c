"""The simulated engine's metrics, under llama-server's names: what reads one reads the other."""

from llmgw_agent.engines.simulated_server.engine import Engine


def metrics_text(engine: Engine) -> str:
    """Return the metrics in Prometheus' text form."""
    lines: list[str] = []
    for name, kind, value in _metrics(engine):
        lines.append(f"# HELP llamacpp:{name} simulated")
        lines.append(f"# TYPE llamacpp:{name} {kind}")
        lines.append(
            f"llamacpp:{name} {value:g}" if kind == "gauge" else f"llamacpp:{name} {value}"
        )
    return "\n".join(lines) + "\n"


def _metrics(engine: Engine) -> tuple[tuple[str, str, float], ...]:
    prompt_rate = engine.prompt_tokens / engine.prompt_seconds if engine.prompt_seconds else 0
    rate = engine.predicted / engine.predicted_seconds if engine.predicted_seconds else 0
    longest = max((s.prompt_tokens + s.decoded for s in engine.slots), default=0)
    return (
        ("prompt_tokens_total", "counter", engine.prompt_tokens),
        ("prompt_tokens_cached_total", "counter", 0),
        ("prompt_seconds_total", "counter", engine.prompt_seconds),
        ("tokens_predicted_total", "counter", engine.predicted),
        ("tokens_predicted_seconds_total", "counter", engine.predicted_seconds),
        ("n_decode_total", "counter", engine.predicted),
        ("n_tokens_max", "counter", longest),
        ("prompt_tokens_seconds", "gauge", prompt_rate),
        ("predicted_tokens_seconds", "gauge", rate),
        ("requests_processing", "gauge", engine.running),
        ("requests_deferred", "gauge", engine.waiting),
    )
