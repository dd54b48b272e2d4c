"""What an alert is, and with what its rule is tested."""

from collections.abc import Mapping
from dataclasses import dataclass

CRITICAL = "critical"
WARNING = "warning"
INFO = "info"

SEVERITIES = {
    CRITICAL: "Users notice, or hardware is at risk: somebody looks now, at night too.",
    WARNING: "It gets worse if nobody looks: today, in working hours.",
    INFO: "Nothing is wrong, but somebody may want to act on it.",
}
"""What each severity asks of people; Alertmanager routes by it."""


@dataclass(frozen=True, slots=True)
class Case:
    """One test of a rule: what is scraped each minute, and what the alert says then.

    `series` maps a series to promtool's notation of its values (`1+0x10`: eleven times 1).
    `fires` holds the labels of each alert that is expected at `at`, without name and severity;
    empty: it is silent. `value` is what `{{ $value … }}` comes out as.
    """

    at: str
    series: Mapping[str, str]
    fires: tuple[Mapping[str, str], ...] = ()
    value: str = ""


@dataclass(frozen=True, slots=True)
class Alert:
    """One alerting rule, and what to do when it fires.

    `hold` is how long the expression must be true. `summary` and `description` are templates of
    Prometheus; `meaning` and `steps`, a list in Markdown, stand on the page that it leads to.
    """

    name: str
    expr: str
    hold: str
    severity: str
    summary: str
    description: str
    meaning: str
    steps: str
    cases: tuple[Case, ...]

    @property
    def anchor(self) -> str:
        """Return where the page tells of it."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Group:
    """Alerts about one kind of thing, evaluated together."""

    name: str
    title: str
    alerts: tuple[Alert, ...]
