"""`llmgw observability`: what Prometheus and Grafana need to watch a cluster."""

import importlib
from pathlib import Path
from typing import Annotated, Any

import typer

from llmgw.base.address import host_and_port
from llmgw.base.errors import Conflict, LlmgwError, Refused, Usage
from llmgw.cli.lazy import Entry, lazy_app
from llmgw.cli.options import DryRun, Format, Output
from llmgw.cli.output import Column, note, print_rows

HERE = "llmgw.cli.observability"

ENTRIES = {
    "export": Entry(f"{HERE}:export", "Write dashboards, alert rules and how to scrape."),
    "alerts": Entry(f"{HERE}:alerts", "List the alerts."),
}

app = lazy_app(ENTRIES, "Dashboards and alerts for Prometheus and Grafana.")

Row = dict[str, str]

_RELATIVE = (
    "each runbook_url is a path in llmgw's documentation; --runbook-base URL makes it an address"
)


def export(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Made if it is not there.")],
    target: Annotated[
        list[str] | None,
        typer.Option("--target", help="HOST:PORT of a control plane; may be given again."),
    ] = None,
    token_file: Annotated[
        str | None,
        typer.Option("--token-file", help="Where Prometheus finds its token.", show_default=False),
    ] = None,
    runbook_base: Annotated[
        str | None,
        typer.Option(
            "--runbook-base",
            help="Address of the page of alerts, to which each runbook_url leads; else the path"
            " in the product's documentation.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write over files that somebody changed.")
    ] = False,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Write Grafana dashboards, alert rules with their tests, and a piece of prometheus.yml.

    Writes again over what an earlier export wrote, but not over a file that somebody changed since.
    """
    module = importlib.import_module("llmgw.observability.export")
    given = {
        "targets": _targets(target),
        "token_file": _token_file(token_file),
        "page": _page(runbook_base),
    }
    options = module.Options(**{name: value for name, value in given.items() if value is not None})
    made: dict[str, str] = module.files(options)
    last = _text(directory / module.MANIFEST)
    there = {name: text for name in made if (text := _text(directory / name)) is not None}
    compared = module.compare(made, there, last)
    if compared.edited and not force:
        raise Conflict(
            f"{directory}: changed since it was exported: {', '.join(compared.edited)}",
            hint="nothing was written; --force writes over these files",
        )
    if not dry_run:
        _write(directory, {**made, module.MANIFEST: module.manifest(made)})
    rows = [{"file": name, "outcome": outcome} for name, outcome in compared.outcomes.items()]
    print_rows(rows, _FILES, output, name=lambda row: row["file"])
    if runbook_base is None:
        note(_RELATIVE)
    if dry_run:
        note("nothing was written")


def alerts(output: Output = Format.TABLE) -> None:
    """List the alerts that `export` writes rules for."""
    table = importlib.import_module("llmgw.observability.alerts.table")
    rows: list[Row] = [
        {
            "name": one.name,
            "group": group.name,
            "severity": one.severity,
            "for": one.hold,
            "expr": one.expr,
            "meaning": one.meaning,
        }
        for group in table.GROUPS
        for one in group.alerts
    ]
    print_rows(rows, _ALERTS, output, name=lambda row: row["name"])


_FILES: tuple[Column[Row], ...] = (
    Column("FILE", lambda row: row["file"]),
    Column("OUTCOME", lambda row: row["outcome"]),
)

_ALERTS: tuple[Column[Row], ...] = (
    Column("ALERT", lambda row: row["name"]),
    Column("SEVERITY", lambda row: row["severity"]),
    Column("FOR", lambda row: row["for"], right=True),
    Column("GROUP", lambda row: row["group"], wide=True),
    Column("MEANING", lambda row: row["meaning"]),
)


def _targets(given: list[str] | None) -> list[str] | None:
    for one in given or ():
        host_and_port(one, "--target", example="head-1:7441")
    return given or None


def _token_file(given: str | None) -> str | None:
    if given is not None and (not given.isprintable() or not given.strip()):
        raise Usage(f"--token-file: {given!r} is no path", hint="as prometheus.yml will name it")
    return given


def _page(given: str | None) -> str | None:
    if given is not None and ("#" in given or not given.isprintable() or not given.strip()):
        raise Usage(f"--runbook-base: {given!r} is no address of a page", hint="without the #part")
    if given is not None and "{{" in given:
        # It becomes part of an annotation, which Prometheus reads as a template.
        raise Usage(f"--runbook-base: {given!r} holds {{{{, which Prometheus would evaluate")
    return given


def _text(path: Path) -> str | None:
    """Return a file's text; None when there is no such file."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _cannot(path, error) from error


def _write(directory: Path, made: dict[str, Any]) -> None:
    from llmgw.base.system import SystemFiles

    files = SystemFiles()
    for name, text in made.items():
        path = directory / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Prometheus may read its rules at any moment: it sees the old file or the new one.
            files.write(path, text.encode(), mode=0o644)
        except OSError as error:
            raise _cannot(path, error) from error


def _cannot(path: Path, error: OSError) -> LlmgwError:
    kind = Refused if isinstance(error, PermissionError) else LlmgwError
    return kind(f"{path}: {error.strerror}")
