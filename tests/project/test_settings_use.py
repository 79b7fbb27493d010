"""Every setting has a description, is read by the program and is given by a test."""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from socialpub.base import config
from socialpub.base.config import Settings, SettingsSection
from socialpub.commands import config_example
from socialpub.platforms import PLATFORMS

ROOT = Path(__file__).parents[2]
SECTIONS: dict[str, type[BaseModel]] = {
    name: field.annotation
    for name, field in Settings.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, SettingsSection)
}
SITES: dict[str, type[BaseModel]] = {f"platforms.{name}": platform.site for name, platform in PLATFORMS.items()}
OF_SITES = {key for site in SITES.values() for key in site.model_fields}


@functools.cache
def trees(folder: str) -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted((ROOT / folder).rglob("*.py"))}


@functools.cache
def nodes(tree: ast.Module) -> list[ast.AST]:
    """What of a tree the tests look at, walked through once."""
    return [node for node in ast.walk(tree) if isinstance(node, LOOKED_AT)]


LOOKED_AT = (ast.keyword, ast.Dict, ast.ImportFrom, ast.Constant, ast.arg, ast.Assign, ast.Attribute, ast.Call)


# --- Documented ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "section"), (SECTIONS | SITES).items(), ids=[*SECTIONS, *SITES])
def test_every_setting_says_what_it_is_for(name: str, section: type[BaseModel]) -> None:
    shown = config_example.build().partition(f"\n[{name}]\n")[2].partition("\n[")[0]
    for key in section.model_fields:
        assert re.search(rf"^# .+\n#{key} = ", shown, re.MULTILINE), f"{name}.{key} has no words in the example"


# --- Used ------------------------------------------------------------------------------------------------------------


def test_every_setting_is_read_by_the_program() -> None:
    trees_of_program = trees("socialpub").values()
    read = {found for tree in trees_of_program for found in reads(tree)}
    named = {text for tree in trees_of_program for text in texts(tree)}
    unread = []
    for name in config.list_names():
        section, key = name.split(".")
        if (section, key) not in read and not ((section, BY_NAME) in read and key in named):
            unread.append(name)
    assert unread == []


BY_NAME = "*"


def reads(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(section, setting) of everything that may be one: `….section.setting`, or by a name that the section was given.

    The setting is BY_NAME where one of a section is read whose name is in a variable.
    """
    names = defaultdict[str, set[str]](set)
    for node in nodes(tree):
        if isinstance(node, ast.arg) and node.annotation is not None:
            kind = ast.unparse(node.annotation).rpartition(".")[2]
            names[node.arg] |= {name for name, section in SECTIONS.items() if section.__name__ == kind}
    for node in nodes(tree):
        if isinstance(node, ast.Assign):
            for name, value in [pair for target in node.targets for pair in pairs(target, node.value)]:
                names[name] |= sections_of(value, names)
    for node in nodes(tree):
        if isinstance(node, ast.Attribute):
            yield from ((section, node.attr) for section in sections_of(node.value, names))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr":
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


def test_every_setting_of_a_platform_is_read_by_the_program() -> None:
    read = {
        node.attr for tree in trees("socialpub").values() for node in nodes(tree) if isinstance(node, ast.Attribute)
    }
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
    assert {("smtp", "host"), ("limits", "reads"), ("server", "port"), ("retention", "*")} == set(
        reads(ast.parse(source))
    )


# --- Tested ----------------------------------------------------------------------------------------------------------


def test_every_setting_is_given_by_a_test() -> None:
    """In a file that names its section, or in what that file has from another: a kit's settings."""
    everything = {".".join(path.relative_to(ROOT).with_suffix("").parts): tree for path, tree in trees("tests").items()}
    wanted = {name: name.split(".") for name in config.list_names()}
    for tree in everything.values():
        given = keys(tree).union(*(keys(everything[name]) for name in imported(tree) if name in everything))
        there = words(tree)
        wanted = {name: parts for name, parts in wanted.items() if parts[0] not in there or parts[1] not in given}
    assert sorted(wanted) == []


def test_every_setting_of_a_platform_is_given_by_a_test() -> None:
    assert OF_SITES - set[str]().union(*map(keys, trees("tests").values())) == set()


def imported(tree: ast.Module) -> set[str]:
    return {node.module for node in nodes(tree) if isinstance(node, ast.ImportFrom) and node.module}


@functools.cache
def words(tree: ast.Module) -> set[str]:
    """What a file names: arguments, keys and, in texts, tables of settings and their variables."""
    found = set(keys(tree))
    for text in texts(tree):
        found |= set(re.findall(r"\[(\w+)[\].]", text))
        found |= {name.lower() for name in re.findall(r"SOCIALPUB_([A-Z]+)__", text)}
    return found


@functools.cache
def keys(tree: ast.Module) -> set[str]:
    """What is given in a file: as an argument or a key, in the text of a settings file, or in the environment."""
    found = {node.arg for node in nodes(tree) if isinstance(node, ast.keyword) and node.arg}
    for node in nodes(tree):
        if isinstance(node, ast.Dict):
            found |= {key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}
    for text in texts(tree):
        found |= set(re.findall(r"(?:^|\n)\s*(\w+) ?= ?", text))
        found |= {name.lower() for name in re.findall(r"SOCIALPUB_[A-Z]+__(\w+)", text)}
    return found


@functools.cache
def texts(tree: ast.Module) -> list[str]:
    return [node.value for node in nodes(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
