"""One pipeline is one sequence of bytes, and bytes become one only of types that are allowed."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline

from proxyguard.adapters.pipelines import Learned, make_estimator
from proxyguard.draw.protocol import Seed
from proxyguard.errors import RegistryError, SealError, UntrustedCode
from proxyguard.models.stored import load_model, model_bytes

OPTIONS: dict[str, dict[str, Any]] = {
    "sklearn.ensemble:RandomForestClassifier": {"n_estimators": 4},
    "sklearn.ensemble:HistGradientBoostingClassifier": {"max_iter": 5},
}
SMALL = ["logistic", "fixed_logistic", *OPTIONS]


def data(n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(n, 3))
    y = (x[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(np.float64)
    x[::7, 1] = np.nan
    return x, y


def unfitted(name: str, x: np.ndarray, seed: int = 3) -> Any:
    """Return a pipeline of scikit-learn, as somebody would name it by import path."""
    estimator = make_estimator(name, OPTIONS.get(name, {}), Seed(seed))
    return estimator.pipeline(x) if isinstance(estimator, Learned) else estimator


def fit(name: str, seed: int = 3) -> Any:
    x, y = data()
    x = np.nan_to_num(x) if name == "fixed_logistic" else x
    return unfitted(name, x, seed).fit(x, y)


def rewritten(content: bytes, **changes: bytes | None) -> bytes:
    """Return a stored model whose members are replaced, or left out where nothing is given."""
    raw = zipfile.ZipFile(io.BytesIO(content))
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as out:
        for name in raw.namelist():
            member = changes.get(name.replace(".", "_"), raw.read(name))
            if member is not None:
                out.writestr(name, member)
    return sink.getvalue()


@pytest.mark.parametrize("name", SMALL)
def test_two_fits_are_the_same_bytes_and_a_fit_on_another_table_is_not(name: str) -> None:
    content = model_bytes(fit(name))
    assert model_bytes(fit(name)) == content
    x, y = data(50)
    other = unfitted(name, np.nan_to_num(x)).fit(np.nan_to_num(x), y)
    assert model_bytes(other) != content


def test_a_model_written_twice_is_the_same_bytes() -> None:
    model = fit("logistic")
    assert model_bytes(model) == model_bytes(model)


def test_a_fresh_interpreter_writes_the_same_bytes() -> None:
    code = (
        "import sys, importlib.util as u; ballast = [object() for _ in range(12345)]\n"
        "spec = u.spec_from_file_location('models', sys.argv[1]); m = u.module_from_spec(spec)\n"
        "spec.loader.exec_module(m); import hashlib\n"
        "for name in reversed(m.SMALL):\n"
        "    print(name, hashlib.sha256(m.model_bytes(m.fit(name))).hexdigest())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, __file__], check=True, capture_output=True, text=True
    )
    found = dict(line.split() for line in done.stdout.splitlines())
    assert found == {n: hashlib.sha256(model_bytes(fit(n))).hexdigest() for n in SMALL}


def vectorized(stop: list[str]) -> Any:
    texts = ["the cat and the dog", "a bird sings", "a dog barks"]
    pipeline = make_pipeline(TfidfVectorizer(stop_words=stop), MultinomialNB())
    fitted = pipeline.fit(texts, [0, 1, 0])
    fitted.predict_proba(texts)  # which notes the address of the stop words
    return fitted


def test_the_address_of_the_stop_words_does_not_reach_the_bytes() -> None:
    # Two lists of the same words at two addresses, both alive.
    first, second = vectorized(["the", "and"]), vectorized(["the", "and"])
    assert first[0]._stop_words_id != second[0]._stop_words_id
    content = model_bytes(first)
    assert model_bytes(second) == content
    assert "_stop_words_id" not in json.dumps(schema(content))
    again = load_model(content, "a model")
    np.testing.assert_array_equal(
        again.predict_proba(["the cat sings"]), first.predict_proba(["the cat sings"])
    )
    assert first[0]._stop_words_id == id(first[0].stop_words)  # the model itself is left alone


def schema(content: bytes) -> Any:
    return json.loads(zipfile.ZipFile(io.BytesIO(content)).read("schema.json"))


def test_no_memory_address_and_no_time_is_in_the_bytes() -> None:
    raw = zipfile.ZipFile(io.BytesIO(model_bytes(fit("logistic"))))
    for info in raw.infolist():
        assert info.date_time == (1980, 1, 1, 0, 0, 0)
    names = [name for name in raw.namelist() if name != "schema.json"]
    assert [int(name.removesuffix(".npy")) for name in names] == sorted(
        int(name.removesuffix(".npy")) for name in names
    )
    numbers: list[int] = []

    def collect(node: Any) -> None:
        if isinstance(node, dict):
            numbers.extend(v for k, v in node.items() if k == "__id__" and isinstance(v, int))
        for value in node.values() if isinstance(node, dict) else node:
            if isinstance(value, dict | list):
                collect(value)

    collect(json.loads(raw.read("schema.json")))
    assert len(numbers) > 10
    # Numbered from 0 on, one a part; an address is far above that.
    assert set(numbers) <= set(range(len(numbers) + len(names)))


@pytest.mark.parametrize("name", ["logistic", "fixed_logistic", "forest", "boosting"])
def test_a_model_predicts_the_same_after_it_was_stored(name: str) -> None:
    model = fit(name)
    again = load_model(model_bytes(model), "model")
    x = np.random.default_rng(6).normal(size=(200, 3))
    np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))
    np.testing.assert_array_equal(again.classes_, model.classes_)


def test_padding_between_fields_is_cleared_and_the_fields_are_kept() -> None:
    # One byte, seven of padding, and a double: align=True is C's layout.
    layout = np.dtype([("kind", "u1"), ("value", "f8")], align=True)
    assert layout.itemsize == 16
    arrays = []
    for filling in (0, 255):
        raw = np.full(3 * layout.itemsize, filling, dtype=np.uint8)
        array = raw.view(layout)
        array["kind"], array["value"] = [1, 2, 3], [0.5, -1.0, np.inf]
        arrays.append(array)
    assert arrays[0].tobytes() != arrays[1].tobytes()  # memory differs, fields do not
    contents = [model_bytes({"nodes": array}) for array in arrays]
    assert contents[0] == contents[1]
    again = load_model(contents[1], "model")["nodes"]
    assert again.dtype == layout
    np.testing.assert_array_equal(again, arrays[1])


FOREIGN = """\
built = []


class Estimator:
    def __init__(self, size=1):
        built.append("made")
        self.size = size

    def __setstate__(self, state):
        built.append("restored")
        self.__dict__.update(state)
"""


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A stored model of a type of somebody's own, whose module is not imported any more."""
    (tmp_path / "pg_foreign.py").write_text(FOREIGN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pg_foreign", raising=False)
    import pg_foreign  # type: ignore[import-not-found]

    content = model_bytes(pg_foreign.Estimator(7))
    monkeypatch.delitem(sys.modules, "pg_foreign")
    return content


def test_a_type_outside_the_allow_list_is_refused_before_it_is_imported(foreign: bytes) -> None:
    with pytest.raises(SealError, match=r"model contains \['pg_foreign\.Estimator'\]"):
        load_model(foreign, "model")
    assert "pg_foreign" not in sys.modules


def test_a_type_that_the_procedure_allows_is_loaded(foreign: bytes) -> None:
    again = load_model(foreign, "model", ["pg_foreign.Estimator"])
    assert again.size == 7
    with pytest.raises(SealError, match=r"pg_foreign\.Estimator"):
        load_model(foreign, "model", ["pg_foreign.Another", "pg_foreign"])


def test_a_function_smuggled_into_a_stored_model_is_refused() -> None:
    content = model_bytes(fit("logistic"))
    schema = json.loads(zipfile.ZipFile(io.BytesIO(content)).read("schema.json"))
    system = {
        "__class__": "system",
        "__module__": "os",
        "__loader__": "FunctionNode",
        "__id__": 999,
        "content": {"module_path": "os", "function": "system"},
    }
    forged = json.dumps({**system, "protocol": schema["protocol"]}).encode()
    with pytest.raises(SealError, match=r"os\.system"):
        load_model(rewritten(content, schema_json=forged), "model")


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x03\x04", b"PK\x05\x06" + bytes(18)])
def test_what_is_no_zip_of_a_model_is_refused_by_name(content: bytes) -> None:
    with pytest.raises(SealError, match="seed 4 is no stored model"):
        load_model(content, "seed 4")


def test_a_stored_model_cut_short_anywhere_is_refused() -> None:
    content = model_bytes(fit("logistic"))
    for size in range(0, len(content), 37):
        with pytest.raises(SealError, match="is no stored model"):
            load_model(content[:size], "model")


def test_a_stored_model_without_its_schema_or_with_a_broken_one_is_refused() -> None:
    content = model_bytes(fit("logistic"))
    assert load_model(rewritten(content), "model") is not None
    for schema in (None, b"{", b"\xff"):
        with pytest.raises(SealError, match="is no stored model"):
            load_model(rewritten(content, schema_json=schema), "model")


def test_without_skops_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    content = model_bytes(fit("logistic"))
    monkeypatch.setitem(sys.modules, "skops", None)
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(RegistryError, match=r"pip install 'proxyguard\[pipelines\]'"):
        model_bytes(fit("logistic"))
    with pytest.raises(UntrustedCode, match=r"seed 4: .*pip install 'proxyguard\[pipelines\]'"):
        load_model(content, "seed 4")
