"""Every setting has a description, is read by the program and is given by a test."""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pydantic import BaseModel

from socialpub.base import config
from socialpub.base.config import Settings
from socialpub.base.settings_sections import SettingsSection
from socialpub.commands import config_example
from socialpub.platforms import PLATFORMS
from tests.support.program_source import MODULES, ROOT, list_nodes, parse_file, read_file

TESTS = sorted((ROOT / "tests").rglob("*.py"))
SECTIONS: dict[str, type[BaseModel]] = {
    name: field.annotation
    for name, field in Settings.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, SettingsSection)
}
SITES: dict[str, type[BaseModel]] = {f"platforms.{name}": platform.site for name, platform in PLATFORMS.items()}
OF_SITES = {key for site in SITES.values() for key in site.model_fields}


Nodes = Sequence[ast.AST]  # of a tree


@functools.cache
def program() -> list[Nodes]:
    """What of each module the tests look at."""
    looked_at = (ast.Constant, ast.arg, ast.Assign, ast.Attribute, ast.Call)
    return [[node for node in list_nodes(module) if isinstance(node, looked_at)] for module in MODULES]


# --- Documented ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "section"), (SECTIONS | SITES).items(), ids=[*SECTIONS, *SITES])
def test_every_setting_says_what_it_is_for(name: str, section: type[BaseModel]) -> None:
    shown = config_example.build().partition(f"\n[{name}]\n")[2].partition("\n[")[0]
    for key in section.model_fields:
        assert re.search(rf"^# .+\n#{key} = ", shown, re.MULTILINE), f"{name}.{key} has no words in the example"


# --- Used ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_setting_is_read_by_the_program() -> None:
    read = {found for nodes in program() for found in reads(nodes)}
    named = {text for nodes in program() for text in texts(nodes)}
    unread = []
    for name in config.list_names():
        section, key = name.split(".")
        if (section, key) not in read and not ((section, BY_NAME) in read and key in named):
            unread.append(name)
    assert unread == []


BY_NAME = "*"


def reads(nodes: Nodes) -> Iterator[tuple[str, str]]:
    """(section, setting) of everything that may be one: `….section.setting`, or by a name that the section was given.

    The setting is BY_NAME where one of a section is read whose name is in a variable.
    """
    names = defaultdict[str, set[str]](set)
    for node in nodes:
        if isinstance(node, ast.arg) and isinstance(node.annotation, ast.Name | ast.Attribute):
            kind = ast.unparse(node.annotation).rpartition(".")[2]
            names[node.arg] |= {name for name, section in SECTIONS.items() if section.__name__ == kind}
    for node in nodes:
        if isinstance(node, ast.Assign):
            for name, value in [pair for target in node.targets for pair in pairs(target, node.value)]:
                names[name] |= sections_of(value, names)
    for node in nodes:
        if isinstance(node, ast.Attribute):
            yield from ((section, node.attr) for section in sections_of(node.value, names))
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "getattr":
            yield from ((section, BY_NAME) for section in sections_of(node.args[0], names))


def pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """What an assignment gives which value, by its last name."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, its in zip(target.elts, value.elts, strict=True):
            yield from pairs(one, its)
    elif isinstance(target, ast.Name | ast.Attribute):
        yield target.id if isinstance(target, ast.Name) else target.attr, value


def sections_of(value: ast.expr, names: dict[str, set[str]]) -> set[str]:
    if not isinstance(value, ast.Name | ast.Attribute):
        return set()
    name = value.id if isinstance(value, ast.Name) else value.attr
    return {name, *names.get(name, ())} & SECTIONS.keys()


@pytest.mark.slow
def test_every_setting_of_a_platform_is_read_by_the_program() -> None:
    read = {node.attr for nodes in program() for node in nodes if isinstance(node, ast.Attribute)}
    assert OF_SITES - read == set()


def test_a_setting_that_nobody_reads_is_seen() -> None:
    source = """
def send(smtp: config.SmtpSettings, service):
    limits, kept = service.settings.limits, 1
    smtp.host
    limits.reads
    service.settings.server.port
    getattr(settings.retention, history)
"""
    found = set(reads(list(ast.walk(ast.parse(source)))))
    assert found == {("smtp", "host"), ("limits", "reads"), ("server", "port"), ("retention", "*")}


# --- Tested ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_setting_is_given_by_a_test() -> None:
    """In a file that names its section, or in what that file has from another: a kit's settings."""
    everything = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in TESTS}
    wanted = {name: name.split(".") for name in config.list_names()}
    for path in TESTS:
        others = [everything[name] for name in imported(path) if name in everything]
        text, given_there = read_file(path), "".join(map(read_file, [path, *others]))
        if any(said(section, text) and said(key, given_there) for section, key in wanted.values()):
            given = keys(path).union(*map(keys, others))
            there = words(path)
            wanted = {name: parts for name, parts in wanted.items() if parts[0] not in there or parts[1] not in given}
    assert sorted(wanted) == []


@pytest.mark.slow
def test_every_setting_of_a_platform_is_given_by_a_test() -> None:
    wanted = set(OF_SITES)
    for path in TESTS:
        if any(said(key, read_file(path)) for key in wanted):
            wanted -= keys(path)
    assert wanted == set()


def said(word: str, text: str) -> bool:
    """Whether a file may give it: others need not be parsed."""
    return word in text or word.upper() in text


@functools.cache
def nodes_of(path: Path) -> Nodes:
    return [node for node in ast.walk(parse_file(path)) if isinstance(node, ast.keyword | ast.Dict | ast.Constant)]


def imported(path: Path) -> set[str]:
    return set(re.findall(r"^\s*from ([\w.]+) import", read_file(path), re.MULTILINE))


@functools.cache
def words(path: Path) -> set[str]:
    """What a file names: arguments, keys and, in texts, tables of settings and their variables."""
    found = set(keys(path))
    for text in texts(nodes_of(path)):
        found |= set(re.findall(r"\[(\w+)[\].]", text))
        found |= {name.lower() for name in re.findall(r"SOCIALPUB_([A-Z]+)__", text)}
    return found


@functools.cache
def keys(path: Path) -> set[str]:
    """What is given in a file: as an argument or a key, in the text of a settings file, or in the environment."""
    nodes = nodes_of(path)
    found = {node.arg for node in nodes if isinstance(node, ast.keyword) and node.arg}
    for node in nodes:
        if isinstance(node, ast.Dict):
            found |= {key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}
    for text in texts(nodes):
        found |= set(re.findall(r"(?:^|\n)\s*(\w+) ?= ?", text))
        found |= {name.lower() for name in re.findall(r"SOCIALPUB_[A-Z]+__(\w+)", text)}
    return found


def texts(nodes: Nodes) -> list[str]:
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
