"""Programs for GPUs and TPUs, made where there is none: without calls of Python, at their cost."""

import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import genclf as gcf
from tests.registry import KERNELS, MODELS, fit_and_score


def shapes(tree):
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), tree)


def lowered(function, *args, platforms=("cuda", "tpu")):
    """The program for GPUs and TPUs. JAX makes none for two platforms that calls Python."""
    return export.export(jax.jit(function), platforms=platforms)(*args)


def every_verb(clf, key, x, y, weights):
    """Each verb of a model, and the derivative of its log-likelihood."""

    def log_lik(weights):
        s = gcf.stats(clf, x, y, weights)
        params = gcf.estimate(clf, s)
        return gcf.log_lik(params, s).sum(), (s, params)

    gradient, (s, params) = jax.grad(log_lik, has_aux=True)(weights)
    scores = [f(params, x) for f in (gcf.log_posterior, gcf.log_marginal, gcf.predict)]
    drawn = gcf.sample(key, params, (7,))
    return gradient, gcf.merge(s, s), scores, drawn, gcf.diagnose(clf, x, y, weights)


def test_a_call_of_python_is_found():
    def f(x):
        return jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), np.float32), x)

    with pytest.raises(NotImplementedError, match="callback"):
        lowered(f, jax.ShapeDtypeStruct((), np.float32))


@pytest.mark.slow("product-one", "product-vmap")
@pytest.mark.parametrize("batched", [False, True], ids=["one", "vmap"])
@pytest.mark.parametrize("model", [*MODELS, *KERNELS], ids=str)
def test_every_model(model, batched):
    x, y = model.example("float32", n=31)
    rows = x, y, np.ones(len(y), np.float32)
    if batched:
        rows = jax.tree.map(lambda a: np.stack([a] * 5), rows)
        lowered(jax.vmap(partial(fit_and_score, model.classifier)), *shapes(rows))
    elif model in KERNELS:  # without sufficient statistics
        lowered(partial(fit_and_score, model.classifier), *shapes(rows))
    else:
        lowered(partial(every_verb, model.classifier), *shapes((jax.random.key(0), *rows)))


def _calls():
    """Each public function with right arguments."""
    from tests.arguments.attack import RIGHT  # it fits models

    return {name: right for name, right in RIGHT.items() if callable(getattr(gcf, name, None))}


def _is_traced(a):
    """Real numbers and keys; integers, which the host often reads, stay as they are."""
    kinds = np.floating, jax.dtypes.prng_key
    return isinstance(a, np.ndarray | jax.Array) and any(jnp.issubdtype(a.dtype, k) for k in kinds)


class Recorded:
    """A compiled function that remembers the arguments of its calls."""

    def __init__(self, function, calls):
        self._function, self._calls = function, calls

    def __call__(self, *args):
        if not any(isinstance(a, jax.core.Tracer) for a in jax.tree.leaves(args)):
            self._calls.append((self._function, args))
        return self._function(*args)

    def __getattr__(self, name):
        return getattr(self._function, name)


@pytest.fixture
def programs(monkeypatch):
    """Calls of compiled functions of genclf, as a list that grows."""
    assert _calls()  # modules are imported when they are used
    calls, recorded = [], {}
    modules = [m for name, m in sys.modules.items() if name.startswith("genclf.")]
    for module in modules:
        for name, function in list(vars(module).items()):
            if hasattr(function, "trace") and hasattr(function, "_cache_size"):
                record = recorded.setdefault(id(function), Recorded(function, calls))
                monkeypatch.setattr(module, name, record)
    return calls


@pytest.mark.slow
def test_every_function(programs):
    """What can be traced is one program, and all else has programs for its parts."""
    on_host = set()
    for name, right in _calls().items():
        leaves, tree = jax.tree.flatten(right)
        where = [i for i, a in enumerate(leaves) if _is_traced(a)]

        def call(traced, name=name, leaves=leaves, tree=tree, where=where):
            new = dict(enumerate(leaves)) | dict(zip(where, traced, strict=True))
            found = getattr(gcf, name)(**jax.tree.unflatten(tree, new.values()))
            return [a for a in jax.tree.leaves(found) if isinstance(a, jax.Array)]

        traced = [leaves[i] for i in where]
        try:
            jax.eval_shape(call, traced)
        except (TypeError, ValueError):
            on_host.add(name)
        else:
            lowered(call, *shapes([traced]))
    for name in on_host:
        getattr(gcf, name)(**_calls()[name])
    assert len(programs) > 30
    for function, args in programs:
        for platform in ("cuda", "tpu"):
            function.trace(*args).lower(lowering_platforms=(platform,))


def _cost(function, *args, platform):
    """The flops and bytes of a program before it is optimised; loops count once."""
    cost = jax.jit(function).trace(*args).lower(lowering_platforms=(platform,)).cost_analysis()
    return np.array([cost["flops"], cost["bytes accessed"]])


N, D, CLASSES = 2003, 257, 11  # d: features for which JAX has other eigenvectors on a TPU


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["cuda", "tpu"])
def test_flops_are_those_of_the_products(platform):
    clf = gcf.lda(CLASSES)
    cost = partial(_cost, platform=platform)
    floors = {
        "stats": 2 * N * D**2,  # the Gram matrix, or half of it
        "log_joint": 2 * N * D**2,  # whitened rows
        "predict": 2 * N * D * CLASSES,
    }
    found = {}
    for n in (N, 2 * N):
        x, y = jax.ShapeDtypeStruct((n, D), np.float32), jax.ShapeDtypeStruct((n,), np.int32)
        params = jax.eval_shape(partial(gcf.fit, clf), x, y)
        found[n] = {
            "stats": cost(partial(gcf.stats, clf), x, y),
            "log_joint": cost(gcf.log_joint, params, x),
            "predict": cost(gcf.predict, params, x),
        }
    for name, floor in floors.items():
        once, twice = found[N][name], found[2 * N][name]
        assert floor / 2 <= once[0] <= 3 * floor, (name, once[0] / floor)
        assert 4 * N * D <= once[1]
        assert (twice <= 2.01 * once).all()


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["cuda", "tpu"])  # for both at once, eigenvectors need x64
@pytest.mark.parametrize("name", ["lda", "qda"])
def test_fits_of_many_features(name, platform):
    rows = jax.ShapeDtypeStruct((N, D), np.float32), jax.ShapeDtypeStruct((N,), np.int32)
    lowered(partial(gcf.fit, getattr(gcf, name)(CLASSES)), *rows, platforms=[platform])
