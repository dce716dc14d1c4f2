"""YAML files that people write, as validated objects: an error names the file, the line, the key and what is allowed."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from nemesis.faults.lengths import WRITTEN
from workloads.file import plainyaml, wording
from workloads.file.filekinds import FILE_KINDS, of_records
from workloads.file.meant import nearest, unknown
from workloads.file.opened import document

HIDDEN = "‹hidden›"
"""What a run's folder shows in place of a secret."""


class FileError(ValueError):
    """A file that cannot be used. One line for each problem: file, line, key, what is wrong and what is allowed."""


KeyPath = tuple[Hashable, ...]
Lines = Mapping[KeyPath, int]
"""The path of every key in a file → its line, from 1."""
Problem = tuple[KeyPath, str]
"""Where something is wrong, and what."""


def refuse(problems: Iterable[Problem], lines: Lines, file: str) -> None:
    """Raise an error that lists a file's problems in the order of its lines; return when there are none.

    Raises:
        FileError: there is a problem.
    """
    found = sorted(((line_of(key, lines), message) for key, message in problems), key=lambda p: p[0])
    if found:
        raise FileError("\n".join(f"{file}:{line}: {message}" for line, message in dict.fromkeys(found)))


def _plain(node: yaml.Node, loader: Any, path: KeyPath, lines: dict[KeyPath, int], wrong: list[tuple[int, str]]) -> Any:
    lines[path] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        out: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node, deep=True)
            line = key_node.start_mark.line + 1
            if not isinstance(key, str):
                wrong.append((line, f'key {key!r} must be a word; write it in quotes: "{key_node.value}"'))
                continue
            if key in out:
                wrong.append((line, f"key {key!r} is given twice; keep one"))
                continue
            out[key] = _plain(value_node, loader, (*path, key), lines, wrong)
            lines[(*path, key)] = line
        return out
    if isinstance(node, yaml.SequenceNode):
        return [_plain(n, loader, (*path, i), lines, wrong) for i, n in enumerate(node.value)]
    if HIDDEN in str(node.value):
        key = path[-1] if path else "the file"
        wrong.append((lines[path], f"{key}: {HIDDEN} stands for a secret that was not stored; put the secret there"))
    try:
        return loader.construct_object(node, deep=True)
    except ValueError as e:  # such as a date that does not exist
        wrong.append((lines[path], f"{node.value!r}: {e}; quote it if it is a word"))
        return node.value


def _parse_yaml(text: str, file: str, example: str) -> tuple[Any, dict[KeyPath, int]]:
    try:
        return _parsed(text, file, example, wordy=False)
    except FileError:  # said by the loader that says where
        return _parsed(text, file, example, wordy=True)


def _parsed(text: str, file: str, example: str, *, wordy: bool) -> tuple[Any, dict[KeyPath, int]]:
    lines: dict[KeyPath, int] = {}
    try:
        loader = plainyaml.reader_of(text, wordy=wordy)
    except yaml.YAMLError as e:  # it is too long, or has a character that YAML does not allow
        line, words = wording.of_yaml(e, text)
        raise FileError(f"{file if line is None else f'{file}:{line}'}: {words}") from None
    try:
        node = plainyaml.composed(loader)
        if node is None:
            raise FileError(f"{file}:1: the file is empty; start from {example}")
        wrong: list[tuple[int, str]] = []
        data = _plain(node, loader, (), lines, wrong)
        if wrong:
            raise FileError("\n".join(f"{file}:{line}: {message}" for line, message in sorted(wrong)))
        return data, lines
    except yaml.YAMLError as e:
        line, words = wording.of_yaml(e, text)
        raise FileError(f"{file if line is None else f'{file}:{line}'}: {words}") from None
    except RecursionError:
        raise FileError(f"{file}: nested too deeply") from None
    finally:
        loader.dispose()


def _allowed_keys(location: KeyPath, root: type[BaseModel]) -> list[str]:
    """The keys that the mapping at ``location`` of a ``root`` may have, found by walking the models; empty when there is no mapping."""
    model: Any = root
    for step in location:
        model = _descend(model, step)
        if model is None:
            return []
    model = _unwrap(model)
    if isinstance(model, type) and issubclass(model, BaseModel):
        return [f.alias or n for n, f in model.model_fields.items()]
    return []


def _unwrap(annotation: Any) -> Any:
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) is Union or type(annotation).__name__ == "UnionType":
        for a in get_args(annotation):
            inner = _unwrap(a)
            if inner is not type(None):
                return inner
    return annotation


def _descend(annotation: Any, step: Hashable) -> Any:
    annotation = _unwrap(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, f in annotation.model_fields.items():
            if step in (name, f.alias):
                return f.annotation
        return None
    args = get_args(annotation)
    if get_origin(annotation) is tuple and args:
        return args[0]
    if get_origin(annotation) is dict and args:
        return args[1]
    return None


def _message(error: ErrorDetails, location: KeyPath, root: type[BaseModel]) -> str:
    key = location[-1] if location else None
    kind = error["type"]
    if isinstance(key, str) and error["input"] is None and (found := re.fullmatch(r"(\S+)[: ]((?![A-Z])\S+)", key)):
        return f"{key!r} is one word; write {found[1]}: {found[2]}, with a space after the colon"
    if kind == "extra_forbidden":
        allowed = _allowed_keys(location[:-1], root)
        return unknown("key", key, allowed)
    if kind == "missing":
        return f"missing key {key!r}"
    name = f"{key}: " if isinstance(key, str) else ""
    if kind in ("value_error", "assertion_error"):
        name = next(
            (f"{k}: " for k in reversed(location) if isinstance(k, str)), ""
        )  # of an entry of a list, the list's
        return f"{name}{str(error['ctx']['error']) if 'ctx' in error else error['msg']}"
    if kind in ("model_type", "dict_type"):
        allowed = _allowed_keys(location, root)
        keys = f" with the keys {', '.join(allowed)}" if allowed else ""
        return f"{name}must be a mapping{keys}, not {wording.shown(error['input'])}"
    return f"{name}{wording.of_value(error)}"


def _true_for(number: type, data: Any, root: Any, path: KeyPath = ()) -> Iterator[Problem]:
    """Every boolean where a number of this type is expected: pydantic would accept ``true`` as 1."""
    if isinstance(data, bool):
        if _unwrap(root) is number:
            name = f"{path[-1]}: " if path and isinstance(path[-1], str) else ""
            yield path, f"{name}must be a number, not {wording.shown(data)}"
        return
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in inner:
        below = _descend(root, key)
        if below is not None:
            yield from _true_for(number, value, below, (*path, key))


def _known(location: KeyPath, lines: Lines) -> KeyPath:
    """The part of pydantic's location that exists in the file: pydantic adds the member of a union, and ``[key]`` for a mapping's key."""
    return next((location[:n] for n in range(len(location), 0, -1) if location[:n] in lines), ())


def _problems(errors: list[ErrorDetails], root: type[BaseModel], lines: Lines) -> Iterator[Problem]:
    """Pydantic's errors, one for each place: without those on a list or mapping that follow from an error inside it, and without
    missing keys that an unknown key probably misspells."""
    meant = set()
    for e in errors:
        if e["type"] == "extra_forbidden":
            *above, key = e["loc"]
            meant.add((*above, nearest(key, _allowed_keys(tuple(above), root))))
    everywhere = {_known(tuple(e["loc"]), lines) for e in errors}
    reported: set[KeyPath] = set()
    for e in errors:
        location: KeyPath = tuple(e["loc"])
        if e["type"] == "missing":
            if location not in meant:
                yield location, _message(e, location, root)
            continue
        place = _known(location, lines)
        inside = any(len(p) > len(place) and p[: len(place)] == place for p in everywhere)
        if place not in reported and not inside:
            reported.add(place)
            is_key = location in lines and location[-1:] != () and location[-1] in _allowed_keys(location[:-1], root)
            yield place, _message(e, location if is_key else place, root)


def line_of(location: KeyPath, lines: Lines) -> int:
    """The line of a key, or of its nearest parent."""
    for n in range(len(location), -1, -1):
        if location[:n] in lines:
            return lines[location[:n]]
    return 1


M = TypeVar("M", bound=BaseModel)

LookUp = Callable[[Any], Iterable[Problem]]
"""Looks up the names in the plain data of a file that need nothing else of the file; the data may be of any shape."""


def nothing(data: Any) -> Iterable[Problem]:
    """No problem of a file's plain data."""
    return ()


def entries(data: Any, *path: str) -> Iterator[tuple[KeyPath, Any]]:
    """What stands at ``path`` in plain data of any shape, ``*`` for every entry of a list: its place and its value."""
    found: list[tuple[KeyPath, Any]] = [((), data)]
    for step in path:
        if step == "*":
            found = [((*key, i), x) for key, value in found if isinstance(value, list) for i, x in enumerate(value)]
        else:
            found = [((*key, step), v[step]) for key, v in found if isinstance(v, dict) and step in v]
    yield from found


def validated(
    root: type[M],
    text: str,
    file: str,
    example: str = "workloads/quick.yaml",
    prepare: Callable[[Any, Lines], Any] = lambda data, lines: data,
    look_up: LookUp = nothing,
    written: bool = True,
) -> tuple[M, Lines]:
    """YAML text as a ``root``, and the line of every key (its path in the file → its line, from 1).

    Args:
        example: the file that the error on an empty file recommends as a start.
        prepare: called on the plain data before validation.
        look_up: called if something is wrong, so that names that mean nothing are reported with it.
        written: whether a person wrote it: a length then needs its unit of time.

    Raises:
        FileError: every problem, each with file, line and key.
    """
    if (records := of_records(text)) is not None:
        wanted = next((FILE_KINDS[key][0] for key in FILE_KINDS if key in root.model_fields), "a file of this kind")
        raise FileError(f"{file}: this is {records[0]}, not {wanted}; {records[1].format(file)}")
    data, lines = _parse_yaml(text, file, example)
    if not isinstance(data, dict):
        raise FileError(f"{file}:1: must be a mapping with the keys {', '.join(_allowed_keys((), root))}")
    _another_kind(data, root, file)
    data = prepare(data, lines)
    whole, other = dict(_true_for(int, data, root)), dict(_true_for(float, data, root))
    problems: list[Problem] = []
    model = None
    try:
        model = root.model_validate(data, context={WRITTEN: written})
    except ValidationError as e:
        problems += _problems(e.errors(), root, lines)
    found = {**other, **dict(p for p in problems if p[0] in other)}  # a duration error says what is allowed
    problems = [p for p in problems if p[0] not in {*whole, *other}]
    problems += [*whole.items(), *found.items()]
    if problems:
        refuse([*problems, *look_up(data)], lines, file)
    assert model is not None, "every error of pydantic gives a problem"
    return model, lines


def _another_kind(data: Mapping[str, Any], root: type[BaseModel], file: str) -> None:
    """Raises FileError: the file is of another kind than ``root``. All of its keys would be unknown, and none of them is the mistake."""
    wanted = [key for key in FILE_KINDS if key in root.model_fields]
    if wanted and not any(key in data for key in wanted):
        for key, (title, use) in FILE_KINDS.items():
            if key in data:
                raise FileError(f"{file}: this is {title}, not {FILE_KINDS[wanted[-1]][0]}; {use.format(file)}")


def read_text(path: Path) -> str:
    """The text of a file.

    Raises:
        FileError: it cannot be read, or is not text.
    """
    try:
        return document(path).decode().replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as e:
        line = e.object.count(b"\n", 0, e.start) + 1
        raise FileError(
            f"{path}:{line}: not UTF-8 text: byte {e.start + 1} is no part of a character; give a text file, saved as UTF-8"
        ) from None
    except FileNotFoundError:
        raise FileError(
            f"{path}: no such file; its path is relative to {Path.cwd()}, or give an absolute one"
        ) from None
    except OSError as e:
        raise FileError(f"{path}: cannot be read: {e.strerror}") from None
