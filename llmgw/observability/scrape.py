"""How Prometheus scrapes a cluster: one target a control plane, no exporter on nodes."""

import shlex
from collections.abc import Sequence

from llmgw.observability.alerts.control import JOB
from llmgw.observability.written import to_yaml

TARGET = "127.0.0.1:7441"
"""Where a control plane answers unless its file says otherwise (`admin` in server.yaml)."""

TOKEN_FILE = "/etc/prometheus/llmgw.token"  # noqa: S105 (a place, not a token)

_HEAD = """\
Take these parts into your prometheus.yml. The leader's /metrics has the whole cluster: nodes are
not scraped. List every control plane: a standby exports a few families of its own, and when it
leads there is nothing to change here.
"""

_LOOPBACK = """
On the control plane's own machine Prometheus needs no token. For one elsewhere, export with
--target HOST:PORT: the control plane has to listen there (`admin` in server.yaml).
"""

_ELSEWHERE = """
The token, of the role that may read metrics and nothing else:
  llmgw ctl token add prometheus --role metrics > {token_file}
  chown prometheus {token_file}; chmod 400 {token_file}
"""


def scrape_config(
    targets: Sequence[str] = (TARGET,), token_file: str | None = None, *, rules_file: str
) -> str:
    """Return the parts of a prometheus.yml that llmgw needs.

    Args:
        targets: `host:port` of each control plane's admin address.
        token_file: where the token of the role `metrics` lies; None: the usual place, and no token
            at all where every target is on the loopback, which needs none.
        rules_file: as prometheus.yml names it.
    """
    job: dict[str, object] = {
        "job_name": JOB,
        "scrape_interval": "15s",
        "metrics_path": "/metrics",
        "scheme": "http",
    }
    head = _HEAD + _LOOPBACK
    if token_file is not None or not all(map(_is_loopback, targets)):
        place = token_file or TOKEN_FILE
        job["authorization"] = {"type": "Bearer", "credentials_file": place}
        head = _HEAD + _ELSEWHERE.format(token_file=shlex.quote(place))
    job["static_configs"] = [{"targets": list(targets)}]
    return to_yaml({"rule_files": [rules_file], "scrape_configs": [job]}, head=head)


def _is_loopback(target: str) -> bool:
    host = target.rpartition(":")[0]
    return host in ("localhost", "[::1]") or host.startswith("127.")
