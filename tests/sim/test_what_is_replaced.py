"""The simulator replaces the world and nothing else: what it imports and defines says so."""

import ast
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

PRODUCT = {
    "llmgw.control.nodes",
    "llmgw.control.plane",
    "llmgw.control.server",
    "llmgw.control.tasks",
    "llmgw.control.world",
    "llmgw.gateway",
    "llmgw.gateway.cells",
    "llmgw.gateway.config",
    "llmgw.gateway.frames",
    "llmgw.gateway.front",
    "llmgw.gateway.key_cells",
    "llmgw.gateway.membership",
    "llmgw.gateway.places",
    "llmgw.gateway.service",
    "llmgw.gateway.worker",
    "llmgw.link",
    "llmgw.link.dial",
    "llmgw.link.enrol",
    "llmgw.link.guard",
    "llmgw.link.identity",
    "llmgw.link.server",
    "llmgw.link.tls",
    "llmgw.pki.authority",
    "llmgw.plan",
    "llmgw.plan.backoff",
    "llmgw.plan.records",
    "llmgw.store.memory",
    "llmgw_agent.assembly",
    "llmgw_agent.config",
    "llmgw_agent.engines",
    "llmgw_agent.engines.install_side",
    "llmgw_agent.host",
    "llmgw_agent.host.disk",
    "llmgw_agent.host.machine",
    "llmgw_agent.host.tree",
    "llmgw_agent.host.world",
    "llmgw_agent.parse.cards",
    "llmgw_agent.probe",
    "llmgw_agent.probe.cpu",
    "llmgw_agent.probe.disks",
    "llmgw_agent.probe.facts",
    "llmgw_agent.probe.further",
    "llmgw_agent.probe.memory",
    "llmgw_agent.probe.ports",
    "llmgw_agent.probe.shards",
    "llmgw_agent.remembered",
    "llmgw_agent.sources",
    "llmgw_agent.supervise",
    "llmgw_agent.supervise.environment",
    "llmgw_agent.weights.fetch_side",
    "llmgw_agent.weights.url_fetch",
}
"""What of control plane, gateway and agent is touched, records and `llmgw.base` apart."""

CLASSES = {
    "Asking": "a user's connection",
    "Carried": "a command that was sent",
    "Coverage": "counts",
    "Helpers": "makes helper processes",
    "InlineHelper": "a process: what answers in it is the product's",
    "Invariants": "checks",
    "Operator": "people",
    "Options": "a run's size",
    "Outcome": "a run's outcome",
    "Pipe": "one direction of a socket pair",
    "PipeChannel": "an end of a socket pair",
    "Place": "what nodes share",
    "Replays": "the network repeats itself",
    "Rules": "checks",
    "RulesOfBooks": "checks",
    "RulesOfLinks": "checks",
    "RulesOfPlans": "checks",
    "RulesOfRequests": "checks",
    "Said": "a log record",
    "SimGateway": "a machine",
    "SimHead": "a machine",
    "SimNode": "a machine",
    "SimPlace": "starts a worker's process, and is the product's place in all else",
    "Simulation": "a run",
    "Totals": "sums",
    "Users": "people",
    "Violation": "an error",
    "Watch": "hears the log",
    "WorkerProcess": "a process: what runs in it is the product's",
    "_ToWatch": "hears the log",
}


def modules() -> dict[str, ast.Module]:
    """Return the simulator's own modules: neither its tests nor the planted bugs."""
    return {
        path.name: ast.parse(path.read_text())
        for path in sorted(HERE.glob("*.py"))
        if not path.name.startswith("test_") and path.name != "planted.py"
    }


def imported(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module)
    return found


def test_what_it_imports_of_control_plane_and_agent_is_listed_here():
    records = ("llmgw.base.", "llmgw.model.", "llmgw.local.sim.")
    found = {
        name
        for tree in modules().values()
        for name in imported(tree)
        if name.startswith(("llmgw.", "llmgw_agent")) and not name.startswith(records)
    }
    assert found == PRODUCT


def test_no_class_answers_for_a_part_of_the_product():
    found = {
        node.name: [ast.unparse(base) for base in node.bases]
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    assert found.keys() == CLASSES.keys()
    bases = {base for of_one in found.values() for base in of_one}
    assert bases == {"Exception", "Place", "Rules", "asyncio.Protocol", "logging.Handler"}


def test_no_fake_of_other_tests_is_used():
    assert not any(
        name.startswith("tests.") and not name.startswith("tests.sim")
        for tree in modules().values()
        for name in imported(tree)
    )


def test_the_shipped_part_knows_neither_control_plane_nor_agent():
    for path in sorted((ROOT / "llmgw" / "local" / "sim").glob("*.py")):
        ours = {name for name in imported(ast.parse(path.read_text())) if name.startswith("llmgw")}
        assert all(name.startswith(("llmgw.base", "llmgw.local.sim")) for name in ours), path.name
