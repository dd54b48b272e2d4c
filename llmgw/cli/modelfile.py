"""A model as a person wrote it: read from a file, and every mistake told at once."""

import sys
from pathlib import Path

from llmgw.base.errors import NotFound, Unreadable
from llmgw.cli import show
from llmgw.cli.output import note
from llmgw.model.catalog import Model
from llmgw.model.record import Problem


def read_file(file: str) -> Model:
    """Return the model that a YAML or JSON file holds; `-` is standard input.

    Raises:
        NotFound: there is no such file.
        Unreadable: it is no such text, or not sound; what is wrong is told, a line each.
    """
    text, where = _read(file)
    return read_model(text, where)


def read_model(text: str, where: str) -> Model:
    """Return the model of a text. Raises as `read_file` does; `where` names it."""
    from llmgw.model.catalog_check import check_model
    from llmgw.model.faulty import Faulty
    from llmgw.model.written import read_yaml

    try:
        model = read_yaml(text, Model, where, meaning=check_model)
    except Faulty as faulty:
        raise unsound(where, faulty.problems) from faulty
    if problems := check_model(model):
        raise unsound(where, problems)
    return model


def unsound(where: str, problems: tuple[Problem, ...]) -> Unreadable:
    """Tell every problem, a line each; return the error that ends the command."""
    for problem in problems:
        note(
            f"{where}: {problem.path}: {problem.words}"
            if problem.path
            else f"{where}: {problem.words}"
        )
    return Unreadable(f"{where}: {show.count(len(problems), 'problem')}, nothing was changed")


def _read(file: str) -> tuple[str, str]:
    if file == "-":
        return sys.stdin.read(), "standard input"
    try:
        return Path(file).read_text(encoding="utf-8"), file
    except FileNotFoundError as error:
        raise NotFound(f"{file}: no such file") from error
    except OSError as error:
        raise Unreadable(f"{file}: can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Unreadable(f"{file}: is no text in UTF-8") from error
