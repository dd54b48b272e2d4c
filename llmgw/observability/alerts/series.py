"""The labels that the tests of alerts are written with."""

from collections.abc import Mapping

GPU: Mapping[str, str] = {"node": "gpu-01", "gpu": "3", "uuid": "GPU-3"}
NODE: Mapping[str, str] = {"node": "gpu-01"}
MODEL: Mapping[str, str] = {"model": "llama"}
PORT: Mapping[str, str] = {"node": "gpu-01", "adapter": "mlx5_0", "port": "1"}


def series(metric: str, labels: Mapping[str, str], **more: str) -> str:
    """Return a series as PromQL writes it."""
    inside = ",".join(f'{name}="{value}"' for name, value in {**labels, **more}.items())
    return f"{metric}{{{inside}}}"
