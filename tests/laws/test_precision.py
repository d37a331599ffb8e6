"""float32 is float64 with fewer digits, and results have the precision of the data."""

import jax
import numpy as np
import pytest

import genclf as gcf
from tests.registry import FAMILIES, MODELS, K, leaves_of


def results(model, dtype):
    x, y = model.example(dtype)
    params = gcf.fit(model.classifier, x, y)
    seen = model.example(dtype, seed=1)[0]
    s = gcf.stats(model.classifier, x, y)
    found = (params, gcf.log_joint(params, seen), gcf.log_posterior(params, seen))
    leaves = leaves_of((*found, gcf.log_lik(params, s)))
    return [(path, a) for path, a in leaves if not path.endswith("rounding")]  # of float32 alone


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_float32_agrees_with_float64(model):
    with jax.enable_x64(True):
        double = results(model, "float64")
    with jax.enable_x64(False):
        single = results(model, "float32")
    for (path, a), (_, b) in zip(single, double, strict=True):
        if np.issubdtype(b.dtype, np.floating):
            assert (a.dtype, b.dtype) == (np.float32, np.float64), path
        # Some ten roundings of the largest number; data themselves are rounded once.
        scale = max(1.0, np.abs(b).max(initial=0))
        assert np.abs(a - b).max(initial=0) < 2e-5 * scale, path


@pytest.mark.slow("product")
@pytest.mark.parametrize("model", FAMILIES, ids=str)
def test_with_x64_float32_data_stay_float32(model):
    with jax.enable_x64(True):
        x, y = model.example("float32")
        params = gcf.fit(model.classifier, x, y)
        floating = [a for a in jax.tree.leaves(x) if np.issubdtype(a.dtype, np.floating)]
        expected = {np.dtype("float32" if floating else "float64")}
        learned = [leaf for path, leaf in leaves_of(params) if not path.endswith("threshold")]
        assert {leaf.dtype for leaf in learned} == expected
        assert gcf.log_posterior(params, x).dtype in expected


def has_float16():
    """Whether XLA compiles float16 here: not for processors without F16C, such as those of SSE4."""
    try:
        jax.jit(lambda a: a.astype(np.float32))(np.ones(2, np.float16))
    except jax.errors.JaxRuntimeError:
        return False
    return True


@pytest.mark.slow(but=("bool",))
@pytest.mark.parametrize("kind", ["bfloat16", "float16", "int8", "uint8", "bool", "int64"])
def test_narrow_data_are_summed_in_float32(kind):
    if kind == "float16" and not has_float16():
        pytest.skip("XLA has no float16 on this processor")
    # 517 ones overflow what int8 can count and lose units in bfloat16.
    x = np.ones((517, 2), jax.numpy.dtype(kind))
    y = (np.arange(517) % K).astype(np.int8)
    for clf in (gcf.gaussian_nb(K), gcf.bernoulli_nb(K), gcf.multinomial_nb(K)):
        params = gcf.fit(clf, x, y)
        assert {leaf.dtype for _, leaf in leaves_of(params)} == {np.dtype("float32")}
        s = gcf.stats(clf, x, y)
        np.testing.assert_array_equal(s.count, [173, 172, 172])
        total = getattr(s.conditional, "total", None)
        if total is not None:
            np.testing.assert_array_equal(total, [[173] * 2, [172] * 2, [172] * 2])
        np.testing.assert_array_equal(gcf.predict(params, x), np.zeros(517))
