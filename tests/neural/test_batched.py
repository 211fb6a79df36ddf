"""Layers of many draws at once, and batches that fit the memory."""

from __future__ import annotations

import ast
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import proxyguard

torch = pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from proxyguard.draw.protocol import Seed  # noqa: E402 - after the skip
from proxyguard.errors import DrawError  # noqa: E402
from proxyguard.neural.batched import (  # noqa: E402
    Adam,
    arithmetic,
    chosen_device,
    in_batches,
    new_linear,
    product,
)
from proxyguard.neural.noise import Purpose, Streams  # noqa: E402


def test_a_draw_learns_the_same_bits_alone_and_in_company() -> None:
    noise = Streams([4, 9, 2])

    def gradients(noise: Streams) -> list[torch.Tensor]:
        first, second = new_linear(noise, 0, 35, 128), new_linear(noise, 1, 128, 20)
        rows = noise.normal(Purpose.START, 0, (500, 35))
        loss = (second(torch.relu(first(rows))).tanh() ** 2).sum()
        loss.backward()
        return [p.grad for p in (*first.parameters, *second.parameters)]

    together = gradients(noise)
    for i in range(3):
        for whole, alone in zip(together, gradients(noise.part(i, i + 1)), strict=True):
            assert torch.equal(whole[i], alone[0])


@pytest.mark.parametrize(("rows", "inputs", "outputs"), [(30, 33, 8), (31, 9, 17), (500, 79, 3)])
def test_products_of_odd_widths_do_not_depend_on_where_in_memory_a_draw_stands(
    rows: int, inputs: int, outputs: int
) -> None:
    noise = Streams(range(7))
    read = noise.normal(Purpose.START, 0, (rows, inputs))
    weight = noise.normal(Purpose.START, 1, (inputs, outputs))

    def products(read: torch.Tensor, weight: torch.Tensor) -> list[torch.Tensor]:
        out = torch.bmm(read, weight)
        sums = torch.bmm(torch.ones((len(read), 1, rows)), read)
        return [out, torch.bmm(out, weight.mT), torch.bmm(read.mT, out), sums]

    together = products(read, weight)
    for i in range(7):
        # A copy begins where memory is aligned, as that of a draw alone does.
        alone = products(read[i : i + 1].clone(), weight[i : i + 1].clone())
        for whole, single in zip(together, alone, strict=True):
            assert torch.equal(whole[i], single[0])


def test_a_matrix_times_one_column_has_the_same_bits_alone_and_in_company() -> None:
    noise = Streams(range(3))
    left = noise.normal(Purpose.START, 0, (33, 128))
    right = noise.normal(Purpose.START, 1, (128, 1))
    added = noise.normal(Purpose.START, 2, (33, 1))
    for more in (None, added):
        together = product(left, right, added=more)
        exact = torch.bmm(left.double(), right.double()) + (0.0 if more is None else more.double())
        torch.testing.assert_close(together.double(), exact, rtol=1e-4, atol=1e-4)
        for i in range(3):
            lone = None if more is None else more[i : i + 1]
            alone = product(left[i : i + 1], right[i : i + 1], added=lone)
            put = torch.empty((1, 33, 1))
            product(left[i : i + 1], right[i : i + 1], added=lone, out=put)
            assert torch.equal(together[i], alone[0])
            assert torch.equal(together[i], put[0])


def test_torch_loads_no_backend_that_a_package_offers(tmp_path: Path) -> None:
    offered = tmp_path / "intruder-1.0.dist-info"
    offered.mkdir()
    (offered / "METADATA").write_text("Metadata-Version: 2.1\nName: intruder\nVersion: 1.0\n")
    (offered / "entry_points.txt").write_text("[torch.backends]\nintruder = intruder:load\n")
    (tmp_path / "intruder.py").write_text("def load():\n    print('loaded')\n")
    ours = {"TORCH_DEVICE_BACKEND_AUTOLOAD"}
    environment = {name: text for name, text in os.environ.items() if name not in ours}
    environment["PYTHONPATH"] = str(tmp_path)

    def printed(module: str) -> str:
        command = [sys.executable, "-c", f"import {module}, torch"]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert printed("proxyguard.neural.batched") == ""
    assert printed("os") == "loaded\n"  # it is offered all the same


def test_torch_is_imported_by_the_networks_alone() -> None:
    # Their package sets what torch reads when it is imported.
    root = Path(proxyguard.__file__).parent
    files = [path for path in root.rglob("*.py") if path.relative_to(root).parts[0] != "neural"]
    assert len(files) > 100
    for path in files:
        tree = ast.parse(path.read_text("utf-8"))
        typing_only = {
            inner
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            for inner in ast.walk(node)
        }
        for node in ast.walk(tree):
            if node in typing_only or not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            origin = node.module if isinstance(node, ast.ImportFrom) else None
            names = [origin or ""] if origin else [alias.name for alias in node.names]
            assert not any(name.split(".")[0] == "torch" for name in names), path


def test_a_layer_starts_within_the_bound_of_the_inputs_that_a_draw_has() -> None:
    layer = new_linear(Streams([1, 2]), 0, 40, 300, fan_in=torch.tensor([40, 10]))
    for i, inputs in enumerate((40, 10)):
        for numbers, near in ((layer.weight, 0.01), (layer.bias, 0.05)):
            widest = float(numbers[i].detach().abs().max())
            assert widest == pytest.approx(inputs**-0.5, rel=near)


def test_batches_are_halved_where_memory_ends_and_each_draw_says_its_company() -> None:
    tried: list[int] = []

    def run(seeds: Sequence[int]) -> list[int]:
        tried.append(len(seeds))
        if len(seeds) > 3:
            raise torch.OutOfMemoryError("no memory")
        return [10 * seed for seed in seeds]

    made = in_batches(run, range(7), most=7)
    assert [result for result, _ in made] == [10 * seed for seed in range(7)]
    assert tried == [7, 3, 3, 1]
    assert [company for _, company in made] == [3, 3, 3, 3, 3, 3, 1]


def test_one_draw_that_does_not_fit_is_an_error_that_says_what_to_register() -> None:
    def run(seeds: Sequence[int]) -> list[int]:
        raise torch.OutOfMemoryError("no memory")

    with pytest.raises(DrawError, match="smaller widths"):
        in_batches(run, [1, 2], most=2)


def test_a_gpu_that_is_not_there_is_refused_and_auto_takes_the_cpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DrawError, match='register device = "auto"'):
        chosen_device("cuda")
    assert chosen_device("auto").type == "cpu"
    assert chosen_device("cpu").type == "cpu"


def test_a_draw_can_say_what_its_last_bits_depend_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = Seed(7)
    seed.computed(**arithmetic(torch.device("cpu")), together=50)
    assert seed.facts["device"] == "cpu"
    assert seed.facts["torch"] == torch.__version__
    assert seed.facts["processor"].split()[0] == platform.machine()
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "H200")
    on_a_gpu = arithmetic(torch.device("cuda"))
    assert (on_a_gpu["device"], on_a_gpu["processor"]) == ("cuda", "H200")


@pytest.mark.parametrize("decay", [0.0, 0.03])
@pytest.mark.parametrize("coupled", [False, True])
def test_our_adam_has_the_bits_of_that_of_pytorch(decay: float, coupled: bool) -> None:
    noise = Streams([4, 9])
    ours, theirs = (
        [p.detach().clone().requires_grad_() for p in new_linear(noise, 0, 35, 13).parameters]
        for _ in range(2)
    )
    kind = torch.optim.Adam if coupled else torch.optim.AdamW
    reference = kind(theirs, lr=0.1, weight_decay=decay, foreach=False, fused=False)
    adam = Adam(ours, decay=decay, coupled=coupled)
    for step in range(20):
        gradients = [noise.normal(Purpose.START, step, p.shape[1:]) for p in ours]
        rate = 0.1 * (1.0 - step / 20)
        adam.step([gradient.clone() for gradient in gradients], rate)
        reference.param_groups[0]["lr"] = rate
        for parameter, gradient in zip(theirs, gradients, strict=True):
            parameter.grad = gradient
        reference.step()
        for a, b in zip(ours, theirs, strict=True):
            assert torch.equal(a, b)
