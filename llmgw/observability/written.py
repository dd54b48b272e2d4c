"""YAML as people like to read it: long texts as blocks, fields in their order."""

import yaml


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and indents lists below their name."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, indentless=False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def to_yaml(value: object, *, head: str = "") -> str:
    """Return plain values as YAML below lines of comment."""
    comment = "".join(f"# {line}".rstrip() + "\n" for line in head.splitlines())
    body = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)
    return comment + body
