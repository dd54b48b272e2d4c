"""Dashboards as Grafana's JSON. Schema 39: what Grafana 10.4 and 11 write; both read it."""

import json
from collections.abc import Iterator
from typing import Any

from llmgw.observability.panel import (
    STAT,
    STATES,
    TABLE,
    TIME,
    WIDTH,
    Dashboard,
    Panel,
    Query,
    Row,
    Variable,
)

SCHEMA = 39

Json = dict[str, Any]

_SOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}
_ROW_HEIGHT = 1
_VARIABLE_EDITOR = "PrometheusVariableQueryEditor-VariableQuery"


def dashboard_json(dashboard: Dashboard) -> str:
    """Return the file that Grafana imports or provisions."""
    return json.dumps(_dashboard(dashboard), indent=2, ensure_ascii=False) + "\n"


def _dashboard(dashboard: Dashboard) -> Json:
    return {
        "annotations": {"list": []},
        "description": dashboard.description,
        "editable": True,
        "fiscalYearStartMonth": 0,
        "graphTooltip": 1,
        "id": None,
        "links": [_links()],
        "panels": list(_placed(dashboard.rows)),
        "refresh": "30s",
        "schemaVersion": SCHEMA,
        "tags": ["llmgw"],
        "templating": {"list": [_datasource(), *(_variable(v) for v in dashboard.variables)]},
        "time": {"from": "now-3h", "to": "now"},
        "timepicker": {},
        "timezone": "browser",
        "title": dashboard.title,
        "uid": f"llmgw-{dashboard.name}",
        "version": 1,
        "weekStart": "",
    }


def _links() -> Json:
    """Return the links to the other dashboards, which take the choices along."""
    return {
        "asDropdown": False,
        "icon": "external link",
        "includeVars": True,
        "keepTime": True,
        "tags": ["llmgw"],
        "targetBlank": False,
        "title": "llmgw",
        "tooltip": "",
        "type": "dashboards",
        "url": "",
    }


def _datasource() -> Json:
    return {
        "current": {"selected": False, "text": "default", "value": "default"},
        "hide": 0,
        "includeAll": False,
        "label": "Prometheus",
        "multi": False,
        "name": "datasource",
        "options": [],
        "query": "prometheus",
        "refresh": 1,
        "regex": "",
        "skipUrlSync": False,
        "type": "datasource",
    }


def _variable(variable: Variable) -> Json:
    query = f"label_values({variable.selector}, {variable.label})"
    return {
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "datasource": _SOURCE,
        "definition": query,
        "hide": 0,
        "includeAll": True,
        "label": variable.title,
        "multi": True,
        "name": variable.name,
        "options": [],
        "query": {"qryType": 1, "query": query, "refId": _VARIABLE_EDITOR},
        "refresh": 2,
        "regex": "",
        "skipUrlSync": False,
        "sort": 3,
        "type": "query",
    }


def _placed(rows: tuple[Row, ...]) -> Iterator[Json]:
    """Yield rows and panels with their places: left to right, a new line where one is full."""
    number, y = 0, 0
    for row in rows:
        number += 1
        yield _row(row, number, y)
        x, y, tallest = 0, y + _ROW_HEIGHT, 0
        for panel in row.panels:
            if x + panel.width > WIDTH:
                x, y, tallest = 0, y + tallest, 0
            number += 1
            place = {"h": panel.height, "w": panel.width, "x": x, "y": y}
            yield {"id": number, "gridPos": place, **_panel(panel)}
            x, tallest = x + panel.width, max(tallest, panel.height)
        y += tallest


def _row(row: Row, number: int, y: int) -> Json:
    return {
        "collapsed": False,
        "gridPos": {"h": _ROW_HEIGHT, "w": WIDTH, "x": 0, "y": y},
        "id": number,
        "panels": [],
        "title": row.title,
        "type": "row",
    }


def _panel(panel: Panel) -> Json:
    made: Json = {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": _defaults(panel), "overrides": _overrides(panel)},
        "options": _OPTIONS[panel.kind],
        "targets": [_target(panel, q, i) for i, q in enumerate(panel.queries)],
    }
    if panel.kind == TABLE:
        made["transformations"] = _columns(panel)
    return made


def _target(panel: Panel, query: Query, index: int) -> Json:
    at_once = panel.kind in (TABLE, STAT)
    return {
        "datasource": _SOURCE,
        "editorMode": "code",
        "expr": query.expr,
        "format": "table" if panel.kind == TABLE else "time_series",
        "instant": at_once,
        "legendFormat": query.legend or "__auto",
        "range": not at_once,
        "refId": _ref(index),
    }


def _ref(index: int) -> str:
    return chr(ord("A") + index)


def _defaults(panel: Panel) -> Json:
    defaults: Json = {
        "color": {"mode": "thresholds" if panel.steps else "palette-classic"},
        "custom": _CUSTOM[panel.kind],
        "mappings": [],
        "thresholds": {
            "mode": "absolute",
            "steps": [
                {"color": panel.base, "value": None},
                *({"color": step.colour, "value": step.above} for step in panel.steps),
            ],
        },
        "unit": panel.unit,
    }
    if panel.kind == TIME:
        defaults["color"] = {"mode": "palette-classic"}
        stacking = {"group": "A", "mode": "normal" if panel.stacked else "none"}
        fill = 40 if panel.stacked else 8
        defaults["custom"] = {**_CUSTOM[TIME], "stacking": stacking, "fillOpacity": fill}
    limits = {"min": panel.least, "max": panel.most}
    return {**defaults, **{name: value for name, value in limits.items() if value is not None}}


def _overrides(panel: Panel) -> list[Json]:
    units = [_override(title, {"unit": unit}) for title, unit in (panel.units or {}).items()]
    return [*units, _override(panel.total, _AS_A_LINE)] if panel.total else units


def _override(title: str, properties: Json) -> Json:
    return {
        "matcher": {"id": "byName", "options": title},
        "properties": [{"id": name, "value": value} for name, value in properties.items()],
    }


def _columns(panel: Panel) -> list[Json]:
    """Join the queries' answers into one row a thing, and give the columns their titles."""
    if len(panel.queries) == 1:
        titles = {"Value": panel.queries[0].legend}
    else:
        titles = {f"Value #{_ref(i)}": q.legend for i, q in enumerate(panel.queries)}
    hidden = ("Time", "__name__", "instance", "job", *panel.hidden)
    return [
        {"id": "merge", "options": {}},
        {
            "id": "organize",
            "options": {
                "excludeByName": dict.fromkeys(hidden, True),
                "includeByName": {},
                "indexByName": {},
                "renameByName": titles,
            },
        },
    ]


_AS_A_LINE: Json = {
    "custom.stacking": {"group": "A", "mode": "none"},
    "custom.fillOpacity": 0,
    "custom.lineWidth": 2,
}

_CUSTOM: dict[str, Json] = {
    TIME: {
        "axisBorderShow": False,
        "axisCenteredZero": False,
        "axisColorMode": "text",
        "axisLabel": "",
        "axisPlacement": "auto",
        "barAlignment": 0,
        "drawStyle": "line",
        "gradientMode": "none",
        "hideFrom": {"legend": False, "tooltip": False, "viz": False},
        "lineInterpolation": "linear",
        "lineWidth": 1,
        "pointSize": 4,
        "scaleDistribution": {"type": "linear"},
        "showPoints": "auto",
        # A gap is what was not measured: no line is drawn over it.
        "spanNulls": False,
        "thresholdsStyle": {"mode": "off"},
    },
    STAT: {},
    TABLE: {"align": "auto", "cellOptions": {"type": "auto"}, "inspect": False},
    STATES: {
        "fillOpacity": 70,
        "hideFrom": {"legend": False, "tooltip": False, "viz": False},
        "lineWidth": 0,
    },
}

_LEGEND: Json = {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": True}

_OPTIONS: dict[str, Json] = {
    TIME: {"legend": _LEGEND, "tooltip": {"mode": "multi", "sort": "desc"}},
    STAT: {
        "colorMode": "value",
        "graphMode": "none",
        "justifyMode": "auto",
        "orientation": "auto",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "showPercentChange": False,
        "textMode": "auto",
        "wideLayout": True,
    },
    TABLE: {
        "cellHeight": "sm",
        "footer": {"countRows": False, "reducer": ["sum"], "show": False},
        "frameIndex": 0,
        "showHeader": True,
    },
    STATES: {
        "alignValue": "left",
        "legend": {**_LEGEND, "showLegend": False},
        "mergeValues": True,
        "rowHeight": 0.9,
        "showValue": "never",
        "tooltip": {"mode": "single", "sort": "none"},
    },
}
