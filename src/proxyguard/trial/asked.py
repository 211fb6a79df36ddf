"""What a trial is asked for: settings, what stands in for the table, and how all is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
from pydantic import ValidationError

from proxyguard.adapters.files import FileFolder
from proxyguard.audit.code import code_of
from proxyguard.draw.catalog import GENERATORS
from proxyguard.errors import RegistryError
from proxyguard.printable import did_you_mean
from proxyguard.registry.explain import explain_errors
from proxyguard.registry.parts import GIVEN
from proxyguard.registry.target import ColumnPart, DeclaredColumns
from proxyguard.trial.demands import OUTCOME_KINDS, OutcomeKind
from proxyguard.trial.rows import named_sources


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedSettings:
    """What was asked for, each read once."""

    kind: OutcomeKind | None
    positive: str | None
    limits: Mapping[str, object]
    exclude: tuple[str, ...]
    columns: DeclaredColumns
    independent: bool
    reliability: str
    draws: int
    options: Mapping[str, object]
    exposure: bool
    keep: int
    seed: int
    workers: int | None


def read_kind(kind: object, outcome: object) -> OutcomeKind:
    """Read what an outcome is said to be."""
    for known in OUTCOME_KINDS:
        if isinstance(kind, str) and kind == known and outcome is not None:
            return known
    raise RegistryError(
        f"kind says what an outcome is, one of {', '.join(OUTCOME_KINDS)}; got {kind!r}, and "
        f"outcome is {outcome!r}"
    )


def read_positive(positive: object, outcome: object) -> str | None:
    """Read the label of a yes."""
    if positive is None:
        return None
    if outcome is None or not isinstance(positive, str | int | np.integer):
        raise RegistryError(
            f"positive is the label of a yes, of an outcome; got {positive!r}, and outcome is "
            f"{outcome!r}"
        )
    return str(positive)


def read_mapping(given: object, name: str) -> Mapping[str, object]:
    """Read what is given by name."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise RegistryError(f"{name} are given by name, such as {{'error': 0.03}}; got {given!r}")
    return dict(given)


def read_columns(columns: Mapping[str, object]) -> dict[str, ColumnPart]:
    """Read how columns are declared, as ``[columns]`` of `audit.toml` has it."""
    declared = {}
    for name, said in columns.items():
        try:
            declared[name] = ColumnPart.model_validate(said)
        except ValidationError as error:
            raise RegistryError(
                explain_errors(error, ColumnPart, said, what=f"columns.{name}")
            ) from None
    return declared


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIns:
    """What stands in for the table: tables that there are, or what draws them."""

    sources: Mapping[str, object] = field(default_factory=dict)
    generators: Mapping[str, object] = field(default_factory=dict)
    """By what they are called: a name or a text from which any process draws, or an object."""
    untold: Mapping[str, str] = field(default_factory=dict)
    """Of an object, why no other process can make it."""
    options: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Of each generator."""

    @classmethod
    def of(cls, releases: object, generator: object, options: Mapping[str, object]) -> StandIns:
        if releases is not None and generator is not None:
            raise RegistryError(
                "both releases and a generator are given, and a trial is of the one or of the "
                "other: leave one out, and try it by itself"
            )
        if releases is None and generator is None:
            raise RegistryError(
                "give what stands in for the table: releases (a table or a folder), or a generator "
                "in their place (--generator)"
            )
        if generator is None and _draws(releases):
            generator = releases
        if generator is None:
            sources = named_sources(releases)
            if not sources:
                raise RegistryError("there is no release; give at least one table")
            if options:
                raise RegistryError("options are those of a generator, and releases are given")
            return cls(sources=sources)
        if isinstance(generator, Mapping):
            several = {str(name): given for name, given in generator.items()}
        else:
            chosen = list(generator) if isinstance(generator, list | tuple) else [generator]
            several = {}
            for given in chosen:
                name = _called(given)
                several[name if name not in several else f"{name} {len(several) + 1}"] = given
        by_name = _options(list(several), options)
        untold: dict[str, str] = {}
        made = {
            name: _for_any_process(given, by_name[name], partial(untold.__setitem__, name))
            for name, given in several.items()
        }
        return cls(generators=made, options=by_name, untold=untold)


def refuse_idle(drawn_here: bool, *, independent: bool, draws: object, reliability: object) -> None:
    """Refuse a setting that would change nothing.

    Raises
    ------
    RegistryError
        Where there is one.
    """
    if drawn_here and independent:
        raise RegistryError(
            "independent is said of releases that exist already, and a generator's draws are so "
            "here: leave --independent out"
        )
    if not drawn_here and draws is not None:
        raise RegistryError(
            "draws are those of a generator, and releases are given: leave --draws out, or name "
            "--generator in place of the releases"
        )
    if not drawn_here and not independent and reliability is not None:
        raise RegistryError(
            "reliability is of what makes releases, and each of these is judged by itself: leave "
            "--reliability out, or say --independent where they are draws of one generator"
        )


def _called(generator: object) -> str:
    """Return a short name of a generator."""
    if isinstance(generator, str):
        return generator.rpartition(":")[2]
    return generator.__name__ if isinstance(generator, type) else type(generator).__name__


def _options(
    names: Sequence[str], options: Mapping[str, object]
) -> dict[str, Mapping[str, object]]:
    """Return the options of each generator; of several they are given by its name."""
    if not names:
        raise RegistryError("there is no generator; give at least one")
    if len(names) == 1:
        return {names[0]: options}
    for name, said in options.items():
        if name not in names or not isinstance(said, Mapping):
            raise RegistryError(
                f"options of several generators are given by name: {{{names[0]!r}: {{...}}}} "
                f"(--option {names[0]}.KEY=VALUE); got {name!r}{did_you_mean(name, names)}"
            )
    return {name: cast("Mapping[str, object]", options.get(name, {})) for name in names}


def _draws(releases: object) -> bool:
    """Return whether what is given as releases is what makes them."""
    if isinstance(releases, str) and not Path(releases).exists():
        return releases in GENERATORS or ":" in releases
    return isinstance(releases, type) or _is_generator(releases)


def _is_generator(thing: object) -> bool:
    return all(callable(getattr(thing, method, None)) for method in ("prepare", "draw"))


def _for_any_process(
    generator: object, options: Mapping[str, object], tell: Callable[[str], None]
) -> object:
    """Return a generator as draws in other processes find it: by its name, or by its text.

    One that has neither is returned as an object, and ``tell`` hears why.
    """
    if isinstance(generator, str):
        if generator in GIVEN or generator.startswith(f"{FileFolder.__module__}:"):
            raise RegistryError(
                f"{generator!r} reads files that there are, which may have been made from any row: "
                "give their folder as the releases, and say what they were made from"
            )
        return generator
    if isinstance(generator, type):
        if generator.__module__ != "__main__" and "<" not in generator.__qualname__:
            return f"{generator.__module__}:{generator.__qualname__}"
        try:
            return code_of(generator, **options)
        except RegistryError as error:
            tell(" ".join(str(error).split()))
            return generator(**options)
    if options:
        raise RegistryError("options are of a generator by name or class; this one is made already")
    if not _is_generator(generator):
        raise RegistryError(
            "a generator is a name of ours, package:Class, a class, or an object with prepare and "
            f"draw; got {type(generator).__name__}"
        )
    tell("it is made already; give its class, and what it is made with as options")
    return generator
