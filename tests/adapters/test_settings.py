"""Numbers of a declaration as they are written."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from proxyguard.adapters.bayesian_network import BayesianNetworkSettings
from proxyguard.adapters.copula import CopulaSettings
from proxyguard.adapters.networks import CtganSettings, TabDdpmSettings, TvaeSettings
from proxyguard.adapters.settings import exact
from proxyguard.errors import RegistryError


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0.1", Fraction(1, 10)),
        ("1e-6", Fraction(1, 10**6)),
        ("1/3", Fraction(1, 3)),
        (0.1, Fraction(1, 10)),  # not the double's 0.1000000000000000055
        (np.float64(0.1), Fraction(1, 10)),
        (3, Fraction(3)),
        (Fraction(2, 7), Fraction(2, 7)),
    ],
)
def test_a_number_is_what_is_written(value: object, expected: Fraction) -> None:
    assert exact(value, "x") == expected


@pytest.mark.parametrize("value", ["much", "1/0", "nan", float("inf"), True, None, [1]])
def test_what_is_no_number_is_refused_by_name(value: object) -> None:
    with pytest.raises(RegistryError, match=r'share is a number, such as "1" or "0\.1", got'):
        exact(value, "share")


def test_limits_are_named_and_the_upper_one_is_allowed() -> None:
    assert exact("1", "share", above=0, most=1) == 1
    for value in ("0", "1.5", "x"):
        with pytest.raises(RegistryError, match="share is a number above 0 and at most 1"):
            exact(value, "share", above=0, most=1)


def _is_number(value: object) -> bool:
    """Return whether an option is described as a number that need not be whole."""
    return isinstance(value, str) and value.replace(".", "").replace("e-", "").isdigit()


GIVEN: dict[str, dict[str, object]] = {
    "noise": {"keep": ["y"]},
    "mask": {"keep": ["y"]},
    "categorical": {
        "outcome": "y", "domains": {"x": ["a", "b"], "y": ["0", "1"]}, "rows": 10, "epsilon": "1",
    },
    "denoising": {
        "outcome": "y", "positive": "1", "rows": 10, "hidden": 2, "train_noise": "0.1",
        "sample_noise": "0.1", "label_fidelity": "0.9", "ridge": "1",
    },
    "text": {"outcome": "y", "positive": "1", "text": "t", "rows": 10},
    "aim": {"delta": "1e-9", "epsilon": "1", "bounds": "from the training rows"},
    "smartnoise_package": {"model": "mst", "epsilon": "1", "delta": "1e-9"},
    "sdv_package": {}, "ctgan_package": {}, "bayesian_network": {},
    "copula": {}, "tvae": {}, "ctgan": {}, "tabddpm": {},
}  # fmt: skip
"""What is declared beside the option that is tried."""
NUMBERS: dict[str, list[str]] = {
    "noise": ["share"], "mask": ["share"],
    "categorical": ["epsilon", "pseudocount"],
    "denoising": ["train_noise", "sample_noise", "label_fidelity", "ridge"],
    "text": ["temperature", "flip", "smoothing"],
    "aim": ["delta", "epsilon", "singles_share", "max_size", "measure_split"],
    "smartnoise_package": ["epsilon", "delta"],
}  # fmt: skip
"""Options that are numbers; those of the others are fields of their settings."""
SETTINGS = (
    TvaeSettings, CtganSettings, TabDdpmSettings, CopulaSettings, BayesianNetworkSettings,
)  # fmt: skip
NUMBERS |= {
    kind.name: [one for one, value in kind().describe().items() if _is_number(value)]
    for kind in SETTINGS
}


def _cases(huge: str) -> list[tuple[str, dict[str, object]]]:
    """Return every option that is a number, as a declaration that says ``huge`` there."""
    cases = [(name, {**GIVEN[name], one: huge}) for name, known in NUMBERS.items() for one in known]
    corruption = {"column": "y", "kind": "flip", "share": huge}
    return [
        *cases,
        *((kind.name, {"corruption": corruption}) for kind in SETTINGS),
        ("ctgan", {"betas": [huge, "0.9"]}),
        ("categorical", {**GIVEN["categorical"], "epsilon": None, "scale": huge}),
        ("aim", {**GIVEN["aim"], "epsilon": None, "rho": huge}),
        ("aim", {**GIVEN["aim"], "bounds": {"x": ["0", huge]}}),
        ("smartnoise_package", {**GIVEN["smartnoise_package"], "bounds": {"x": ["0", huge]}}),
        ("bayesian_network", {"edges": {"x": [huge]}}),
    ]


@pytest.mark.parametrize("huge", ["1e400000000", "1e-99999999"])
def test_a_huge_exponent_is_refused_before_it_is_computed(huge: str) -> None:
    # A process of its own: where the power is computed, nothing but its end stops it.
    tried = (
        "import json, sys\n"
        "from proxyguard.draw.catalog import load_generator\n"
        "from proxyguard.errors import RegistryError\n"
        "for name, options in json.load(sys.stdin):\n"
        "    try:\n"
        "        load_generator(name, options)\n"
        "    except RegistryError as error:\n"
        "        assert 'a number' in str(error), (name, options, error)\n"
        "        continue\n"
        "    sys.exit(f'{name} took {options}')\n"
    )
    cases = json.dumps(_cases(huge))
    done = subprocess.run(
        [sys.executable, "-c", tried],
        input=cases, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
