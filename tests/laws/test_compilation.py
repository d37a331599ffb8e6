"""One compilation per shape: none on the second call, none for another hyper-parameter."""

import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from tests.costs import counted
from tests.registry import BY_NAME, FAMILIES, MODELS, K, N, take, with_hyperparameters

pytestmark = pytest.mark.usefixtures("x64")


@pytest.fixture
def compiled():
    """A function that returns the number of traces and compilations since it was last called."""
    with counted() as work:

        def since(kind=None):
            number = work.total() if kind is None else work[kind]
            work.clear()
            return number

        yield since


def use_everything(clf, x, y):
    s = gcf.stats(clf, x, y)
    params = gcf.estimate(clf, s)
    gcf.fit(clf, x, y)
    gcf.fit(clf, x, y, np.ones(len(y)))
    for function in (gcf.predict, gcf.log_joint, gcf.log_posterior, gcf.log_marginal):
        function(params, x)
    gcf.log_lik(params, s)
    gcf.pool(jax.tree.map(lambda leaf: leaf[None], gcf.remove(gcf.merge(s, s), s)))
    gcf.sample(jax.random.key(0), params, (7,))
    gcf.diagnose(clf, x, y)


def test_compilations_are_counted(compiled):
    jax.jit(lambda x: 2 * x)(1.0)
    assert compiled("traces") > 0
    jax.jit(lambda x: 3 * x)(1.0)
    assert compiled("compilations") > 0


@pytest.mark.slow
@pytest.mark.parametrize("model", FAMILIES, ids=str)
def test_nothing_on_the_second_call_nor_for_another_hyper_parameter(model, compiled):
    use_everything(model.classifier, *model.example("float64"))
    compiled()
    use_everything(model.classifier, *model.example("float64", seed=1))
    assert compiled() == 0
    other = with_hyperparameters(model.classifier, lambda leaf: leaf + 0.125)
    use_everything(other, *model.example("float64", seed=2))
    assert compiled() == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gaussian", "categorical", "multinomial-tokens", "product"])
def test_a_stream_of_batches_compiles_for_the_first_and_for_the_odd_last(name, compiled):
    model = BY_NAME[name]
    x, y = model.example("float64", n=99 * 11 + 7)
    traces = 0

    @jax.jit
    def add(total, x, y):
        nonlocal traces
        traces += 1
        return gcf.merge(total, gcf.stats(model.classifier, x, y))

    batches = [slice(start, start + 11) for start in range(0, len(y), 11)]
    assert len(batches) == 100
    total = gcf.stats(model.classifier, take(x, batches[0]), y[batches[0]])
    alone = total
    for batch in batches[1:]:
        total = add(total, take(x, batch), y[batch])
    assert traces <= 2
    # The same without a jit of our own: once warm, only the odd batch compiles.
    compiled()
    for batch in batches[1:]:
        alone = gcf.merge(alone, gcf.stats(model.classifier, take(x, batch), y[batch]))
        assert compiled() == 0 or batch in (batches[1], batches[-1])
    np.testing.assert_allclose(alone.count, total.count)
    assert float(total.count.sum()) == len(y) != N


@pytest.mark.slow
def test_batches_of_any_size_are_predicted_by_few_programs(compiled):
    model = BY_NAME["product-linear"]
    params = gcf.fit(model.classifier, *model.example("float64"))
    sizes = np.random.default_rng(0).permutation(np.arange(1, 601, 6))
    x = model.example("float64", n=601)[0]
    expected = np.asarray(gcf.log_posterior(params, jax.tree.map(jnp.asarray, x)))
    assert len(sizes) == 100
    compiled()
    for size in sizes:
        gcf.predict(params, take(x, slice(size)))
    # Each of at most eight programs is traced (once for the checks of its kind) and compiled.
    assert 0 < compiled("compilations") <= 8
    for size in sizes[:7]:
        found = gcf.log_posterior(params, take(x, slice(size)))
        np.testing.assert_allclose(found, expected[:size], rtol=1e-12, atol=1e-12)


def test_a_large_batch_is_predicted_in_pieces():
    n = 2 * 65536 + 101
    x = np.random.default_rng(0).normal(size=(n, 1))
    params = gcf.fit(gcf.lda(2), x[:101], (x[:101, 0] > 0).astype(int))
    expected = gcf.predict(params, jnp.asarray(x))
    np.testing.assert_array_equal(gcf.predict(params, x), expected)


def test_a_float_hyper_parameter_may_be_an_array(compiled):
    x, y = BY_NAME["gaussian"].example("float64")
    gcf.fit(gcf.lda(3, ridge=np.float64(0.1)), x, y)
    compiled()
    gcf.fit(gcf.lda(3, ridge=np.float64(0.2)), x, y)
    assert compiled() == 0


# Multiples of `m n min(m, n)` that jaxlib counts, at most, as the flops of LAPACK's functions.
LAPACK = {"potrf": 1 / 3, "trsm": 1.0, "syevd": 9.0, "geqrf": 2.0, "orgqr": 2.0, "gesdd": 4.0}


def assert_small_batches(f, *args):
    """With 200,000 flops jaxlib waits for XLA's threads in one of them: two such calls for ever."""
    many = jax.tree.map(lambda a: jax.ShapeDtypeStruct((1009, *a.shape), a.dtype), args)
    program = jax.jit(jax.vmap(f)).trace(*many).lower(lowering_platforms=("cpu",))
    calls = re.findall(r"@lapack_.(\w+)_ffi\(.*: \(tensor<([\dx]+)xf\d+>", program.as_text())
    for name, shape in calls:
        *batch, m, n = map(int, shape.split("x"))
        assert math.prod(batch) * LAPACK[name] * m * n * min(m, n) <= 200_000
    return calls


@pytest.mark.slow("product")
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_no_batch_of_matrices_waits_for_the_thread_pool(model):
    def fit_and_score(x, y):
        params = gcf.fit(model.classifier, x, y)
        return gcf.log_posterior(params, x)

    example = jax.tree.map(jnp.asarray, model.example("float64", n=31))
    calls = assert_small_batches(fit_and_score, *example)
    assert all(shape.split("x")[-1] == shape.split("x")[-2] for _, shape in calls)
    assert calls or not isinstance(model.family, gcf.Gaussian) or model.family.covariance != "full"


@pytest.mark.parametrize("target", ["identity", "diagonal"])
def test_no_batch_of_fits_in_the_row_space_waits_for_it(target):
    clf = gcf.Classifier(gcf.Gaussian(shared=True, shrinkage=0.1, target=target), K)
    x, y = jnp.ones((13, 31), jnp.float32), jnp.arange(13) % K
    assert assert_small_batches(lambda x, y: gcf.fit(clf, x, y), x, y)
    assert assert_small_batches(lambda x, y: gcf.diagnose(clf, x, y), x, y)

    def score(x, y):
        return gcf.log_posterior(gcf.fit(clf, x, y), x).sum()

    assert assert_small_batches(jax.grad(score), x, y)
