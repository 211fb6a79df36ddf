"""Which generators and procedures there are by name, and what code a name leads to.

A name is one of ours, an entry point of the group ``proxyguard.generators`` or
``proxyguard.procedures``, or an import path ``module:attribute``; it is loaded when named, not
before. A name that two packages claim is refused.

What is registered of code are digests of its text, by module. The version of an installed package
stands for its modules other than the one that is named. Code that lies elsewhere, loose files or a
checkout, may change under one version, so it is followed wherever its imports lead: a helper beside
a generator's module changes releases as the module itself does. Nothing is imported to find it, not
even the package that a module lies in: whoever asks for a digest would run what is to be digested.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.metadata import (
    EntryPoints,
    PackageNotFoundError,
    distribution,
    entry_points,
    packages_distributions,
)
from importlib.util import resolve_name
from inspect import isclass, signature
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, cast

from proxyguard.documents.registry import Origin
from proxyguard.errors import MissingExtra, RegistryError, UntrustedCode
from proxyguard.extras import need
from proxyguard.printable import did_you_mean, found

if TYPE_CHECKING:
    from proxyguard.draw.protocol import Called, Generator

OURS = __name__.split(".", maxsplit=1)[0]


def package_version(module: str) -> str:
    """Return the version of the distribution that a module belongs to."""
    package = module.split(".", maxsplit=1)[0]
    # Ours is known: to look for it reads the metadata of all packages, in every drawing process.
    # A package that is installed from its checkout lists no files of its own.
    names = [OURS] if package == OURS else _distributions().get(package) or [package]
    return installed_version(names[0]) or "not packaged"


def installed_version(name: str) -> str | None:
    """Return the version of a distribution that is installed here, or nothing."""
    try:
        files = distribution(name)
    except (PackageNotFoundError, ValueError):  # none of this name; nothing that is a name
        return None
    # A step asks hundreds of times, and each time anew: a package may be exchanged while draws
    # run. To read all that it says of itself, its README too, would take four times as long.
    said = files.read_text("METADATA") or files.read_text("PKG-INFO") or ""
    stated = re.search(r"^version:[ \t]*(\S.*?)[ \t]*$", said.partition("\n\n")[0], re.I | re.M)
    return None if stated is None else stated[1]


def code_digests(module: str) -> dict[str, str]:
    """Return the digest of a module's file, and of the files that it imports and may change.

    A module without a file, such as one that is built into Python, has no text to register.

    Parameters
    ----------
    module
        The dotted name of a module; its file is read and never run.

    Returns
    -------
    dict
        Digests of files by module, in the order of the names.
    """
    digests: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        spec = None if name in digests else _spec(name)
        if spec is not None and "." in name:
            waiting.append(name.rpartition(".")[0])  # importing a module runs its packages first
        if spec is None or spec.origin is None or not Path(spec.origin).is_file():
            continue  # known already, or no module: a name that is imported from one
        # The named module has its digest even where it is installed: its file can be edited in
        # place, and the version would not tell.
        if name != module and _installed(name, spec.origin):
            continue
        content = Path(spec.origin).read_bytes()
        digests[name] = hashlib.sha256(content).hexdigest()
        if spec.origin.endswith(".py") and not _installed(name, spec.origin):
            package = name if spec.submodule_search_locations is not None else spec.parent or ""
            waiting += _imports(content, package)
    return dict(sorted(digests.items()))


def _installed(name: str, path: str) -> bool:
    """Return whether a version stands for a module: Python's, ours, or an installed package's."""
    package = name.split(".", maxsplit=1)[0]
    # By name and before the path: ours may run from a checkout, which lies in none of these
    # folders.
    if package == OURS or package in sys.stdlib_module_names:
        return True
    folders = {sysconfig.get_path(kind) for kind in ("purelib", "platlib", "stdlib")}
    return any(Path(path).is_relative_to(folder) for folder in folders)


def _spec(name: str) -> ModuleSpec | None:
    """Return where a module would be imported from.

    Unlike `importlib.util.find_spec`, which imports the packages that a dotted name leads
    through, this looks into their folders.
    """
    folders: Sequence[str] | None = None
    spec: ModuleSpec | None = None
    known = ""
    for word in name.split("."):
        known = f"{known}.{word}" if known else word
        if not word.isidentifier() or (spec is not None and folders is None):
            return None  # no name, or a module of something that is no package
        spec = _spec_in(known, folders)
        if spec is None:
            return None
        folders = _folders(spec)
    return spec


def _spec_in(name: str, folders: Sequence[str] | None) -> ModuleSpec | None:
    """Return what Python's finders find in these folders, or on the whole import path."""
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec(name, folders)
        except (ImportError, ValueError, AttributeError):
            continue
        except KeyError:  # a package without __init__ in a package that is not imported
            return _plain_package(name, folders or ())
        if spec is not None:
            return spec
    return None


def _plain_package(name: str, folders: Sequence[str]) -> ModuleSpec:
    last = name.rpartition(".")[2]
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [
        path for path in (os.path.join(folder, last) for folder in folders) if os.path.isdir(path)
    ]
    return spec


def _folders(spec: ModuleSpec) -> list[str] | None:
    locations = spec.submodule_search_locations
    return None if locations is None else list(locations)


@lru_cache(maxsize=256)
def _imports(content: bytes, package: str) -> tuple[str, ...]:
    """Return what a module's text imports, wherever in it; names that may be modules too."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()  # it cannot be loaded either, which says so itself
    names: list[str] = []
    # Imports inside functions and under conditions too: what a draw imports late runs in it as
    # well.
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            try:
                whole = resolve_name(base, package) if node.level else base
            except ImportError:
                continue  # a relative import beyond the package, which cannot be loaded either
            # The text does not say whether a name that is imported from a package is a module of
            # it.
            names += [whole, *(f"{whole}.{alias.name}" for alias in node.names)]
    return tuple(dict.fromkeys(names))


@cache
def _distributions() -> Mapping[str, list[str]]:
    return packages_distributions()  # reads every installed package: once is enough


GENERATORS = {
    "bootstrap": "proxyguard.adapters.transforms:RowBootstrap",
    "files": "proxyguard.adapters.files:FileFolder",
    "callable": "proxyguard.adapters.transforms:Callable",
    "code": "proxyguard.adapters.transforms:code",
    "predictions": "proxyguard.adapters.files:StoredPredictions",
    "noise": "proxyguard.adapters.transforms:Noise",
    "coarsen": "proxyguard.adapters.transforms:Coarsen",
    "mask": "proxyguard.adapters.transforms:Mask",
    "categorical": "proxyguard.adapters.categorical:CategoricalSampler",
    "denoising": "proxyguard.adapters.denoising:DenoisingAutoencoder",
    "text": "proxyguard.adapters.text:UnigramText",
    "tvae": "proxyguard.adapters.neural:Tvae",
    "ctgan": "proxyguard.adapters.neural:Ctgan",
    "tabddpm": "proxyguard.adapters.neural:TabDdpm",
    "copula": "proxyguard.adapters.copula:Copula",
    "bayesian_network": "proxyguard.adapters.bayesian_network:BayesianNetwork",
    "aim": "proxyguard.adapters.aim:Aim",
    "ctgan_package": "proxyguard.adapters.synthesizers:CtganModel",
    "sdv_package": "proxyguard.adapters.synthesizers:SdvModel",
    "smartnoise_package": "proxyguard.adapters.synthesizers:SmartNoiseModel",
}
# Names of ours for code of somebody else: a function that is named, or a text.
OF_OTHERS = frozenset({"callable", "code"})
# Adapters of ours to packages of others: the code that draws is that of the package.
OF_PACKAGES = frozenset({"ctgan_package", "sdv_package", "smartnoise_package"})
# Generators of ours that are random: nobody can declare them to be without randomness.
SEEDED = OF_PACKAGES | {
    "bootstrap", "noise", "mask", "categorical", "denoising", "text",
    "copula", "bayesian_network", "aim",
    "tvae", "ctgan", "tabddpm",
}  # fmt: skip


class Extra(NamedTuple):
    """What a generator needs that its user may not have, and what brings it."""

    name: str
    modules: tuple[str, ...]  # which their distributions are called too
    first: str = ""  # what is installed before the extra, in the version that it is tested with


TORCH = Extra("torch", ("torch",), "torch==2.13.0")
AIM = Extra("aim", ("opendp", "mbi", "jax", "polars"))
# Generators of ours that need an extra to draw; to describe themselves they need none.
EXTRAS: dict[str, Extra] = {"tvae": TORCH, "ctgan": TORCH, "tabddpm": TORCH, "aim": AIM}
# Options of the adapter that had the name before: of ours none is called so.
_MOVED = {"ctgan": ("model", "options"), "sdv": (), "smartnoise": ()}
# Generators of ours whose draws change nothing in their process: each is a function of source and
# seed, in numpy and pandas alone, with no library in between that has a state of its own.
LEAVE_NOTHING = frozenset({"bootstrap", "noise", "coarsen", "mask"})
PROCEDURES = {
    "default": "proxyguard.adapters.any_table:default",
    "logistic": "proxyguard.adapters.pipelines:logistic",
    "forest": "proxyguard.adapters.pipelines:forest",
    "boosting": "proxyguard.adapters.pipelines:boosting",
    "fixed_logistic": "proxyguard.adapters.pipelines:fixed_logistic",
    "onehot_logistic": "proxyguard.adapters.pipelines:onehot_logistic",
    "balanced_logistic": "proxyguard.adapters.pipelines:balanced_logistic",
    "balanced_boosting": "proxyguard.adapters.pipelines:balanced_boosting",
    "fast_logistic": "proxyguard.adapters.newton:fast_logistic",
    "fast_onehot_logistic": "proxyguard.adapters.newton:fast_onehot_logistic",
    "count_nb": "proxyguard.adapters.text:count_nb",
}


class Takes(NamedTuple):
    """What a learner of ours takes; `Library` refuses the rest by column, before it is fitted."""

    outcomes: tuple[str, ...]
    numbers: bool = True
    text: bool = False
    missing: bool = False  # numbers, even if none was missing in training
    infinite: bool = False


_TWO, _CLASSES = ("binary",), ("binary", "multiclass")
# What each of our procedures takes; `docs/learners.md` says the same, with how long they take.
LEARNERS = {
    "default": Takes((*_CLASSES, "regression"), text=True, missing=True, infinite=True),
    "logistic": Takes(_CLASSES, missing=True),
    "forest": Takes(_CLASSES, missing=True),
    "boosting": Takes(_CLASSES, missing=True),
    "fixed_logistic": Takes(_TWO),
    "onehot_logistic": Takes(_TWO, text=True),
    "balanced_logistic": Takes(_CLASSES, text=True, missing=True),
    "balanced_boosting": Takes(_CLASSES, text=True, missing=True),
    "fast_logistic": Takes(_TWO),
    "fast_onehot_logistic": Takes(_TWO, numbers=False, text=True),
    "count_nb": Takes(_CLASSES, numbers=False, text=True),
}
# Procedures of ours that take numbers of any size.
TAKE_INFINITE = frozenset(name for name, takes in LEARNERS.items() if takes.infinite)
# Procedures of ours that live with missing numbers, even if none was missing in training.
FILL_MISSING = frozenset(name for name, takes in LEARNERS.items() if takes.missing)

_NAMED_CODE = ContextVar("whether code that a declaration names may be run", default=True)


@contextmanager
def only_our_code() -> Iterator[None]:
    """Refuse, within, to import anything that is not this package's own.

    Whoever reads a stranger's folder stands in here: a name in it (a loss, a procedure, a
    generator, the function of a `callable`) would otherwise decide what runs on their machine.
    Every import by name goes through `_load`, so that no reader can forget to ask.
    """
    token = _NAMED_CODE.set(False)
    try:
        yield
    finally:
        _NAMED_CODE.reset(token)


def is_ours(name: str, kind: str = "generator") -> bool:
    """Return whether a name stands for code of this package, whatever else is installed.

    `callable` and `code` are names of ours for what somebody else wrote.
    """
    return name in (GENERATORS if kind == "generator" else PROCEDURES) and name not in OF_OTHERS


def is_built_in(name: str) -> bool:
    """Return whether a generator, by name or import path, runs code of this package alone."""
    own = {path for known, path in GENERATORS.items() if known not in OF_OTHERS}
    return code_path(name) in own


def leaves_nothing(name: str) -> bool:
    """Return whether a generator is one of ours whose draws leave nothing for those after them."""
    return code_path(name) in {GENERATORS[plain] for plain in LEAVE_NOTHING}


def is_random(name: str) -> bool:
    """Return whether a generator is one of ours that takes its seed, by name or import path."""
    return name in SEEDED or name in {GENERATORS[seeded] for seeded in SEEDED}


def load_generator(name: str, options: Mapping[str, object]) -> Generator:
    """Return a generator made with its options.

    Raises
    ------
    RegistryError
        If nothing or more than one thing has this name, if it cannot be loaded, or if it does not
        take these options.
    UntrustedCode
        Within `only_our_code`, if it is code of others.
    """
    path = code_path(name)
    moved = [option for option in _MOVED.get(name, ()) if option in options]
    # Before it is made: another mechanism under the name that a declaration has would be drawn, or
    # an error would speak of an option and not of the name.
    if moved:
        raise RegistryError(f"{name!r} with the options {moved}: {_moved_words(name)}")
    return _make(path, name, options)


def _moved_words(name: str) -> str:
    now = f"{name}_package"
    ours = f", and {name!r} is a generator of proxyguard itself" if name in GENERATORS else ""
    return f"the adapter to the package {name} is called {now!r} now{ours}; declare the one meant"


def need_extra(name: str) -> None:
    """See that what a generator of ours needs to draw is installed.

    Raises
    ------
    RegistryError
        If it is not; it says what to type.
    """
    extra = extra_of(name)
    if extra is not None:
        try:
            need(f"generator = {name!r}", extra.modules, extra.name)
        except MissingExtra as error:
            first = f"; before it: pip install {extra.first}" if extra.first else ""
            raise RegistryError(f"{error}{first}") from None


def extra_of(name: str) -> Extra | None:
    """Return the extra that a generator of ours, by name or import path, needs to draw."""
    by_path = {GENERATORS[known]: extra for known, extra in EXTRAS.items()}
    return by_path.get(GENERATORS.get(name, name))


def same_torch(first: str | None, second: str | None) -> bool:
    """Return whether two versions of torch are one release, of whichever build.

    A build ("+cpu", "+cu130") is left out: wheels of one version name it in the module and not in
    their metadata, and an audit that is registered beside a CPU may be drawn on a GPU.
    """
    if first is None or second is None:
        return False
    return first.partition("+")[0] == second.partition("+")[0]


def code_path(name: str) -> str:
    """Return the import path of a generator."""
    return _find(name, GENERATORS, "proxyguard.generators")


def procedure_path(name: str) -> str:
    """Return the import path of a learning procedure."""
    return _find(name, PROCEDURES, "proxyguard.procedures")


def load_ours(name: str, options: Mapping[str, object]) -> Generator:
    """Return a generator of this package, also where another package claims its name."""
    return _make(GENERATORS[name], name, options)


def find_pipeline(name: str) -> Called:
    """Return the function that makes an unfitted estimator of this name."""
    return load_callable(procedure_path(name), name)


def origin(name: str, kind: str = "generator", also: Sequence[str] = ()) -> Origin:
    """Return where a name comes from: path, version of its package, digests of its code.

    Parameters
    ----------
    name
        A name of ours, of an entry point, or an import path.
    kind
        "generator" or "procedure": the two have names of their own.
    also
        Import paths of further code that it calls.

    Raises
    ------
    RegistryError
        If nothing has this name, or more than one thing has.
    UntrustedCode
        Within `only_our_code`, if it leads to code of others.
    """
    ours = GENERATORS if kind == "generator" else PROCEDURES
    return path_origin(_find(name, ours, f"proxyguard.{kind}s"), also)


def path_origin(path: str, also: Sequence[str] = ()) -> Origin:
    """Return the version and the code that an import path leads to."""
    for named in (path, *also):
        _refuse_named(named)  # a stranger's folder chooses no file of the verifier's to be read
    modules = [named.partition(":")[0] for named in (path, *also)]
    code: dict[str, str] = {}
    for module in modules:
        code |= code_digests(module)
    versions = {module: package_version(module) for module in modules[1:]}
    return Origin(path=path, version=package_version(modules[0]), code=code, also=versions or None)


@cache
def _points(group: str, path: tuple[str, ...]) -> EntryPoints:
    """Return what the installed packages offer under a group, as seen from an import path."""
    # A step asks hundreds of times, and every time costs the metadata of all packages.
    return entry_points(group=group)


def _find(name: str, ours: Mapping[str, str], group: str) -> str:
    paths = {point.value for point in _points(group, tuple(sys.path)).select(name=name)}
    if name in ours:
        paths.add(ours[name])
    if ":" in name:
        paths.add(name)
    # Any package can claim any name in its metadata: to prefer one of two would let an installation
    # change what a declared name runs.
    if len(paths) > 1:
        raise RegistryError(f"{name!r} is claimed by {sorted(paths)}; name one by its import path")
    if not paths and ours is GENERATORS and name in _MOVED:
        raise RegistryError(f"there is no generator {name!r}: {_moved_words(name)}")
    if not paths:
        path = ":".join(name.rpartition(".")[::2])
        by_path = f'; by its import path it is "{path}", with a colon' if "." in name else ""
        raise RegistryError(
            f"there is no {group.split('.')[1][:-1]} {found(name)}"
            f"{by_path}; ours are {', '.join(sorted(ours))}, others are named by import path, "
            f"module:attribute{'' if by_path else did_you_mean(name, ours)}"
        )
    return paths.pop()


def _refuse_named(path: str) -> None:
    """Refuse code that a folder names where only ours may run."""
    # By the whole path: proxyguard.draw.processes:os.system begins with our package as well, and
    # leads out of it by its attributes.
    ours = path in GENERATORS.values() or path in PROCEDURES.values()
    if not ours and not _NAMED_CODE.get():
        raise UntrustedCode(
            f"{path} is code that the folder names, which is not run here", names=(path,)
        )


def _load(path: str, name: str) -> object:
    # Before the import, which runs the module's code already.
    _refuse_named(path)
    module, _, attribute = path.partition(":")
    said = f"{name!r} cannot be loaded{'' if name == path else f' from {path}'}"
    try:
        loaded: object = import_module(module)
    except ModuleNotFoundError as error:
        if module.endswith(".py"):
            words = f'; name the module without its ending: "{module[:-3]}:{attribute}"'
        elif error.name and f"{module}.".startswith(f"{error.name}."):
            words = (
                f": there is no module {error.name}; if it is a file of yours, name its folder, "
                "PYTHONPATH=FOLDER proxyguard ..., else install its package"
            )
        else:
            words = f": it imports {error.name}, which is not installed here"
        raise RegistryError(said + words) from error
    except SyntaxError as error:
        where = f"{Path(error.filename or module).name}, line {error.lineno}"
        raise RegistryError(f"{said}: {where} is no Python") from error
    except (ImportError, ValueError) as error:
        raise RegistryError(f"{said}: {error}") from error
    for word in attribute.split("."):
        if not hasattr(loaded, word):
            names = [known for known in dir(loaded) if not known.startswith("_")]
            raise RegistryError(
                f"{said}: {module} has no {word or 'name after the colon'}"
                f"{did_you_mean(word, names)}"
            )
        loaded = getattr(loaded, word)
    return loaded


def load_callable(path: str, name: str | None = None) -> Called:
    """Return a class or a function that an import path names, to be called."""
    loaded = _load(path, name or path)
    if not callable(loaded):
        raise RegistryError(
            f"{name or path!r} leads to a value of type {type(loaded).__name__}, expected a class "
            "or a function"
        )
    return cast("Called", loaded)


def load_text(text: str, name: str) -> Called:
    """Return a class or a function that a text defines, to be called.

    Raises
    ------
    RegistryError
        If the text cannot be run, or defines nothing of this name that can be called.
    UntrustedCode
        Within `only_our_code`: a text is code of others, whoever holds it.
    """
    if not _NAMED_CODE.get():
        raise UntrustedCode(
            f"the text of {name} is code that the folder holds, which is not run here",
            names=(name,),
        )
    # Under a name of its own, by which classes find their module and libraries find classes.
    module = ModuleType(f"proxyguard_text_{hashlib.sha256(text.encode()).hexdigest()[:16]}")
    sys.modules[module.__name__] = module
    try:
        exec(compile(text, f"<text of {name}>", "exec"), vars(module))
    except Exception as error:  # of whatever the text does when it is run
        raise RegistryError(
            f"the text of {name} cannot be run: {type(error).__name__}: {error}"
        ) from error
    loaded = vars(module).get(name)
    if not callable(loaded):
        raise RegistryError(f"the text defines no class and no function {name!r}")
    return cast("Called", loaded)


def imports_of_text(text: str) -> tuple[str, ...]:
    """Return the modules that a text imports and that may change: neither Python's nor ours."""
    names = (name for name in _imports(text.encode(), "") if _spec(name) is not None)
    return tuple(
        name
        for name in names
        if name.partition(".")[0] not in sys.stdlib_module_names and name.partition(".")[0] != OURS
    )


def _make(path: str, name: str, options: Mapping[str, object]) -> Generator:
    kind = load_callable(path, name)
    refusal = _refused_options(kind, name, options)
    if refusal is not None:
        raise RegistryError(refusal)
    try:
        # What it lacks of a generator, whoever asks it for that will say.
        return cast("Generator", kind(**options))
    except TypeError as error:
        raise RegistryError(f"{name!r} cannot be made with its options: {error}") from None


def _refused_options(kind: Called, name: str, options: Mapping[str, object]) -> str | None:
    """Return which options something does not take or needs besides, before it is called."""
    try:
        parameters = signature(kind).parameters.values()
    except (ValueError, TypeError):  # of native code, which tells when it is called
        return None
    if not isclass(kind) and [p.name for p in parameters][:2] == ["source", "rng"]:
        return (
            f'{name!r} is a function of source and rng: write generator = "callable" and '
            f'options = {{ function = "{name}" }}'
        )
    taken = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        for option in options:
            if option not in taken:
                there = f"it has {', '.join(taken)}" if taken else "it takes none"
                return f"{name!r} has no option {option}; {there}{did_you_mean(option, taken)}"
    needed = [
        p.name for p in parameters
        if p.name in taken and p.default is p.empty and p.name not in options
    ]  # fmt: skip
    if needed:
        written = ", ".join(f"{option} = ..." for option in needed)
        return f"{name!r} needs options = {{ {written} }}"
    return None
