"""`llmgw ctl plan` and `llmgw ctl explain`: what is decided, and why."""

from typing import Annotated, Any

import typer

from llmgw.base.errors import NotFound
from llmgw.cli import session, show
from llmgw.cli.options import Format, Output
from llmgw.cli.output import ABSENT, Column, note, print_data, print_rows, say

Next = Annotated[bool, typer.Option("--next", help="What the next pass would do; not done yet.")]


def plan(output: Output = Format.TABLE, next_: Next = False) -> None:
    """Print what the last pass decided, what the next one would do, and why."""
    client = session.connect()
    query = {"next": "true"} if next_ else None
    answer: dict[str, Any] | None = client.get("/plan", query)
    if answer is None:
        raise NotFound("no pass has run yet")
    if output in (Format.JSON, Format.YAML):
        print_data(answer, output)
        return
    if next_:
        print_plan(answer, "next: plan")
        return
    print_plan(answer, "plan")
    say("")
    following = client.get("/plan", {"next": "true"})
    if following["sentence"] == answer["sentence"] and not (following["steps"] or answer["steps"]):
        say(f"next: plan {following['number']} after {following['parent']}: the same")
        return
    print_plan(following, "next: plan")


def print_plan(answer: dict[str, Any], what: str) -> None:
    """Print a plan with those of its steps and refusals that its sentence leaves out."""
    parent = answer["parent"]
    after = "" if parent is None else f" after {parent}"
    told = str(answer["sentence"])
    say(f"{what} {answer['number']}{after}: {told}")
    for step in answer["steps"]:
        if step["replica"] not in told or step["words"] not in told:
            say(f"  {_verb(step['kind'])} {step['replica']}: {step['words']}")
    for refusal in answer["refusals"]:
        if f"{refusal['model']}: {refusal['words']}" not in told:
            say(f"  not placed {refusal['model']} ({refusal['profile']}): {refusal['words']}")


def _verb(kind: str) -> str:
    return "pre-empt" if kind == "preempt" else kind


def _scores(candidate: dict[str, Any]) -> str:
    return ", ".join(f"{rule} {score}" for rule, score in candidate["scores"].items()) or ABSENT


def _words(candidate: dict[str, Any]) -> str:
    return str(candidate["verdict"]["words"]) or ABSENT


def _all_words(candidate: dict[str, Any]) -> str:
    """Return a verdict's words with each of its reasons, however many there are."""
    words, reasons = _words(candidate), candidate["verdict"].get("reasons")
    if not reasons:
        return words
    # What comes before the reasons is short of nothing.
    before, found, _ = words.partition(str(reasons[0]))
    return before + "; ".join(reasons) if found else words


COLUMNS: tuple[Column[dict[str, Any]], ...] = (
    Column("NODE", lambda c: str(c["node"])),
    Column("VERDICT", lambda c: str(c["verdict"]["kind"]).replace("_", " ")),
    Column("RULE", lambda c: str(c["verdict"]["rule"]) or ABSENT),
    Column("WORDS", _words, full=_all_words),
    Column("SCORES", _scores),
)


def explain(
    model: Annotated[str, typer.Argument(help="The model's public name.")],
    output: Output = Format.TABLE,
) -> None:
    """Print every node's verdict on one more replica of a model, and its scores."""
    found: list[dict[str, Any]] = session.connect().get(f"/explain/{model}")
    print_rows(found, COLUMNS, output, name=lambda c: str(c["node"]), empty="there are no nodes")
    if output is Format.TABLE and found and not any(c["verdict"]["kind"] == "fits" for c in found):
        note(f"{model} fits nowhere now, of {show.count(len(found), 'node')}")
