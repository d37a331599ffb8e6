"""Run by `test_sharding.py` in a process of its own, in which one processor is four devices."""

import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

import genclf as gcf
from genclf.classifier import estimation, scores
from tests.registry import BY_NAME, MIXTURES, MODELS, WITH_HOLES, assert_close, fit_and_score

N = 4 * 29
HIDDEN = [m for m in (*MIXTURES, *WITH_HOLES) if m.name in ("mixture-tokens", "gaussian-holes")]
# All verbs on all kinds of meshes take long: one model of each road through the code.
ROADS = [BY_NAME[name] for name in ("gaussian-diag", "categorical", "multinomial-tokens")]


def make_mesh(axis_type=AxisType.Explicit, axes=1):
    shape, names = ((4,), ("rows",)) if axes == 1 else ((2, 2), ("other", "rows"))
    return jax.make_mesh(shape, names, axis_types=(axis_type,) * axes)


def over_rows(mesh, *trees):
    return jax.device_put(trees, NamedSharding(mesh, P("rows")))


def example(model, n=N):
    """Rows in the order of their classes, so that devices lack classes; and weights."""
    x, y = model.example("float64", n)
    order = np.argsort(y)
    return jax.tree.map(lambda a: a[order], x), y[order], np.linspace(0.5, 2, n)


def assert_same(actual, expected):
    """The same numbers, whatever devices they lie on."""
    number = lambda a: np.asarray(a, np.int32 if a.dtype == bool else a.dtype)  # noqa: E731
    assert_close(jax.tree.map(number, actual), jax.tree.map(number, expected), 1e-12)


def assert_lie(tree, mesh, *spec):
    """Arrays lie so on the devices of an explicit mesh, and their types say so."""
    for leaf in jax.tree.leaves(tree):
        assert leaf.sharding.is_equivalent_to(NamedSharding(mesh, P(*spec)), leaf.ndim), leaf
        typed = jax.typeof(leaf).sharding
        rest = (None,) * (leaf.ndim - len(spec))
        assert (typed.mesh, tuple(typed.spec)) == (mesh.abstract_mesh, (*spec, *rest)), typed


def others(clf, params, x, y, weights):
    unknown = jnp.where(y == 1, -1, y)
    found = gcf.em(clf, x, unknown, weights=weights, key=jax.random.key(0), max_steps=3)
    of_all = gcf.stats(clf, x, y, weights), gcf.diagnose(clf, x, y, weights), found
    given = gcf.condition(params, x, y)
    of_rows = gcf.discriminant(params, x), gcf.log_marginal(params, x), given.log_posterior
    return (*of_all, given.params), (*of_rows, given.features, given.x)


def every_model():
    """Over explicit axes, in code of the user's own that is compiled."""
    for model in (*MODELS, *HIDDEN):
        run = jax.jit(partial(fit_and_score, model.classifier))
        data = example(model)
        whole, of_rows = run(*over_rows(make_mesh(), *data))
        assert_same((whole, of_rows), run(*data))
        assert_lie(whole, make_mesh())
        assert_lie(of_rows, make_mesh(), "rows")


def every_verb():
    """The same for the verbs that are left, and called one by one."""
    for model in ROADS:
        clf, data = model.classifier, example(model)
        params = gcf.fit(clf, *data)
        whole, of_rows = others(clf, params, *over_rows(make_mesh(), *data))
        assert_same((whole, of_rows), others(clf, params, *data))
        assert_lie(of_rows, make_mesh(), "rows")


def every_mesh():
    """Axes of either type, one or two of them, and the mesh in force or not."""
    for model in ROADS:
        clf, data = model.classifier, example(model)
        expected = fit_and_score(clf, *data)
        meshes = make_mesh(AxisType.Auto), make_mesh(axes=2), make_mesh(AxisType.Auto, axes=2)
        for mesh in meshes:
            spread = over_rows(mesh, *data)
            assert_same(fit_and_score(clf, *spread), expected)
            with jax.set_mesh(mesh):
                assert_same(fit_and_score(clf, *spread), expected)
        with jax.set_mesh(make_mesh()):
            assert_same(fit_and_score(clf, *data), expected)


def by_hand():
    """Statistics of each device, pooled over the mesh; rows of less than a block, and of several.

    The rows of a device have partial sums from 256 on, and blocks of 32,768.
    """
    models = (*ROADS, BY_NAME["gaussian"], BY_NAME["product"])
    cases = [(model, N) for model in models] + [(model, 4 * 257) for model in models[-2:]]
    for model, n in (*cases, (BY_NAME["gaussian-diag"], 4 * 65_537)):
        clf, data = model.classifier, example(model, n)

        def pooled(*rows, clf=clf):
            return gcf.estimate(clf, gcf.pool(gcf.stats(clf, *rows), "rows"))

        for mesh in (make_mesh(), make_mesh(AxisType.Auto)):
            spread = jax.shard_map(pooled, mesh=mesh, in_specs=P("rows"), out_specs=P())
            assert_same(jax.jit(spread)(*over_rows(mesh, *data)), gcf.fit(clf, *data))


def transformed():
    """Derivatives, a batch of fits over the mesh, and features that are sharded as well as rows."""
    clf, (x, y, weights) = gcf.lda(3), example(BY_NAME["gaussian"])

    def loss(x, y):
        return gcf.log_posterior(gcf.fit(clf, x, y), x)[:, 0].sum()

    with jax.set_mesh(make_mesh()):  # JAX itself takes no derivative of a reduction without
        on_many = jax.grad(loss)(*over_rows(make_mesh(), x, y)), jax.grad(loss)(x, y)
    assert_same(on_many, (jax.grad(loss)(x, y),) * 2)
    shifted = x[None] + np.arange(4.0)[:, None, None]
    for each in (clf, gcf.qda(3)):
        fits = jax.vmap(lambda x, clf=each: gcf.fit(clf, x, y))
        assert_same(fits(*over_rows(make_mesh(), shifted)), fits(shifted))
    mesh = make_mesh(axes=2)
    wide = np.concatenate([x[:, :1], x], axis=1)
    columns = jax.device_put(wide, NamedSharding(mesh, P("other", "rows")))
    params = gcf.fit(gcf.gaussian_nb(3), columns, y, weights)
    assert_same(params, gcf.fit(gcf.gaussian_nb(3), wide, y, weights))
    assert_lie(gcf.predict(params, columns), mesh, "other")


def outside_verbs():
    """What is not a function of a fitted model, and takes rows all the same."""
    model = BY_NAME["categorical"]
    clf, (x, y, _) = model.classifier, example(model)

    def run(x, y):
        params = gcf.fit(clf, x, y)
        gcf.validate(params, x)
        words = gcf.Tokens.from_lengths(x, y, 7)
        alike = (
            gcf.indicators(x, 7),
            words.counts(),
            gcf.discretize.codes(x.astype(float) * 0.5, [1.2, 2.3]),
        )
        certain = gcf.calibration(gcf.log_posterior(params, x), y)
        return alike, (certain, gcf.adapt_prior(params, x).params)

    alike, whole = run(*over_rows(make_mesh(), x, y))
    assert_same((alike, whole), run(x, y))
    assert_lie(alike, make_mesh(), "rows")


def compiled_once():
    clf, data = gcf.gaussian_nb(3), over_rows(make_mesh(), *example(BY_NAME["gaussian"]))
    gcf.predict(gcf.fit(clf, *data), data[0])
    before = estimation._fit_closed._cache_size(), scores.predictions._cache_size()
    gcf.predict(gcf.fit(gcf.gaussian_nb(3, ridge=0.5), *data), data[0])
    after = estimation._fit_closed._cache_size(), scores.predictions._cache_size()
    assert after == before


def two_meshes():
    x, y, _ = example(BY_NAME["gaussian"])
    (x,), (y,) = over_rows(make_mesh(), x), over_rows(make_mesh(axes=2), y)
    try:
        gcf.fit(gcf.lda(3), x, y)
    except ValueError as error:
        assert "jax.device_put" in str(error), error
    else:
        raise AssertionError("two meshes in one call were taken")


LAWS = (
    every_model,
    every_verb,
    every_mesh,
    by_hand,
    transformed,
    outside_verbs,
    compiled_once,
    two_meshes,
)

if __name__ == "__main__":
    assert len(jax.devices()) == 4
    for law in LAWS:
        if law.__name__ in sys.argv[1:]:
            law()
            print(law.__name__, flush=True)
