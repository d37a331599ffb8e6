"""The benchmark for GPUs runs, on small data, where there is none."""

import sys
from functools import partial

import jax
import pytest

from benchmarks import floors, gpu


def test_without_a_gpu_nothing_is_measured(capsys):
    gpu.main()
    assert capsys.readouterr().out.startswith("no GPU here")


@pytest.mark.slow
def test_the_benchmark_for_gpus_runs(monkeypatch, capsys):
    small = {name: partial(of.func, 211, 5, 3, *of.args[3:]) for name, of in floors.GROUPS.items()}
    monkeypatch.setattr(floors, "GROUPS", small)
    for name, value in {"REPEATS": 1, "SECONDS": 0}.items():
        monkeypatch.setattr(floors, name, value)
    for name, value in {"N": 211, "D": 5, "CLASSES": 3, "SETS": 7}.items():
        monkeypatch.setattr(gpu, name, value)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(sys, "argv", ["gpu", *small])  # without the memory of a fit of its own size
    gpu.main()
    printed = capsys.readouterr().out
    assert printed.count("\n| LDA ") >= 10 and "fits of LDA per second" in printed
    assert "% of a copy's bandwidth" in printed and "nan" not in printed
