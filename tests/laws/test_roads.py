"""Three roads to one estimate: they share declarations and the log-joint, and they agree."""

import dataclasses
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from genclf.families.capabilities import HasRoads
from genclf.roads.problem import arrays, declared, start as start_of
from tests.registry import (
    BY_NAME,
    FAMILIES,
    MODELS,
    K,
    N,
    assert_close,
    having,
    leaves_of,
    stack,
    with_hyperparameters,
)

# Of the models that differ in data alone, one.
ROADS = [
    model for model in having(HasRoads, FAMILIES) if model.name not in ("univariate", "presence")
]
one_of_each = pytest.mark.parametrize("model", ROADS, ids=str)


def weighted(model, dtype):
    """Rows of fractional weight, some without label, one of them garbage."""
    x, y = model.example(dtype)
    weights = np.random.default_rng(3).uniform(0.5, 2, N)
    return x, np.where(np.arange(N) % 11 == 5, -1, y), weights.astype(dtype)


def test_a_start_has_the_form_of_an_estimate():
    for model in having(HasRoads, FAMILIES):
        clf = model.classifier
        stats = jax.eval_shape(partial(gcf.stats, clf), *model.example("float32"))
        roads = (partial(road, clf) for road in (start_of, gcf.estimate))
        start, found = (jax.eval_shape(lambda s, of=of: arrays(of(s)), stats) for of in roads)
        shapes = [{name: a.shape for name, a in each.items()} for each in (start, found)]
        assert shapes[0] == shapes[1], model.name


@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
def test_a_start_of_constant_features_is_regular(covariance):
    x = np.ones((7, 2), np.float32)
    stats = gcf.stats(gcf.Classifier(gcf.Gaussian(covariance), 2), x, np.arange(7) % 2)
    start = gcf.Gaussian(covariance).start(stats.conditional)
    matrices = np.asarray(start.covariances)
    assert np.isfinite(matrices).all() and (np.diagonal(matrices, axis1=1, axis2=2) > 0).all()


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
@one_of_each
def test_gradient_ascent_finds_the_closed_form(model):
    clf, rows = model.classifier, weighted(model, "float64")
    found = gcf.fit_gradient(clf, *rows)
    assert found.converged and not found.on_boundary
    assert_close(found.params, gcf.fit(clf, *rows), 1e-6)
    trace = np.asarray(found.objective)
    assert np.isnan(trace[found.steps + 1 :]).all()
    trace = trace[: found.steps + 1]
    assert (np.diff(trace) >= -1e-9 * np.abs(trace[-1])).all()
    assert found.gradient_norm <= 1e-9


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
@one_of_each
def test_the_conditions_of_lagrange_give_the_closed_form(model):
    clf, rows = model.classifier, weighted(model, "float64")
    s = gcf.stats(clf, *rows)
    found = gcf.fit_lagrange(clf, s)
    assert found.converged
    assert_close(found.params, gcf.estimate(clf, s), 1e-9)
    # The multiplier of the class prior is the number of examples.
    total = rows[2][rows[1] >= 0].sum() + K * clf.class_alpha
    np.testing.assert_allclose(found.multipliers["log_prior"], total, rtol=1e-9)
    for bound in jax.tree.leaves(found.bound_multipliers):
        np.testing.assert_allclose(bound, 0, atol=1e-9)


@pytest.mark.slow("float32-bernoulli", "float32-poisson", "float32-product", "float64-product")
@one_of_each
def test_the_certificate_accepts_the_closed_form(model, dtype):
    clf, rows = model.classifier, weighted(model, dtype)
    found = gcf.certify(clf, gcf.fit(clf, *rows), *rows)
    assert found.valid
    assert found.tol == np.asarray({"float32": 5e-4, "float64": 1e-7}[dtype.name], dtype)
    assert found.curvature < 0
    tolerance = 1e-4 if dtype == np.float32 else 1e-12
    assert np.abs(found.gap) <= tolerance
    total = rows[2][rows[1] >= 0].sum() + K * clf.class_alpha
    np.testing.assert_allclose(found.multipliers["log_prior"], total, rtol=tolerance)


def largest_difference(a, b):
    pairs = zip(leaves_of(a), leaves_of(b), strict=True)
    return max(np.abs(left - right).max() for (_, left), (_, right) in pairs)


def moved(params, name, by):
    """The params with one parameter off: its first entry moved by a share."""

    def change(path, leaf):
        here = ".".join(str(getattr(k, "key", getattr(k, "name", ""))) for k in path)
        if not here.endswith(name):
            return leaf
        changed = np.array(leaf)
        changed.flat[0] += by * max(abs(changed.flat[0]), 1)
        return changed

    return jax.tree_util.tree_map_with_path(change, params)


@pytest.mark.slow("float32-product", "float64-product")
@one_of_each
def test_the_certificate_refuses_a_parameter_that_is_off(model, dtype):
    clf, rows = model.classifier, weighted(model, dtype)
    params = gcf.fit(clf, *rows)
    names = declared(clf, params)
    assert len(names) > 1  # of the class prior and of the densities
    for name in names:
        wrong = moved(params, name.split(".")[-1], 0.01)
        assert largest_difference(wrong, params) > 0
        assert not gcf.certify(clf, wrong, *rows).valid, name


def broken(family):
    """The family with a closed form that is wrong by two per cent of its parameters."""

    class Broken(type(family)):
        def estimate(self, stats):
            params = super().estimate(stats)
            fields = tuple(params.parameters)

            def off(name):
                value = getattr(params, name)
                if params.parameters[name].constraint == "simplex":
                    return jax.nn.log_softmax(1.02 * value, -1)
                return 1.02 * value

            return eqx.tree_at(
                lambda p: tuple(getattr(p, name) for name in fields),
                params,
                tuple(off(name) for name in fields),
            )

    return Broken(**{f.name: getattr(family, f.name) for f in dataclasses.fields(family)})


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    "model",
    [m for m in MODELS if m.name in ("gaussian-shared", "bernoulli", "multinomial")],
    ids=str,
)
def test_a_broken_closed_form_is_found_out(model):
    x, y = model.example("float64")
    right = model.classifier
    wrong = gcf.Classifier(broken(model.family), num_classes=K)
    claim = gcf.fit(wrong, x, y)
    by_gradient = gcf.fit_gradient(wrong, x, y).params
    by_lagrange = gcf.fit_lagrange(wrong, gcf.stats(wrong, x, y)).params
    assert_close(by_gradient, by_lagrange, 1e-6)
    assert_close(by_gradient, gcf.fit(right, x, y), 1e-6)
    assert largest_difference(claim, by_gradient) > 1e-3
    assert not gcf.certify(wrong, claim, x, y).valid
    assert gcf.certify(wrong, by_lagrange, x, y).valid


@pytest.mark.slow("product")
@pytest.mark.usefixtures("x64")
@one_of_each
def test_hyper_parameters_are_pseudo_statistics(model):
    # Merged with the data's, they give by maximum likelihood what the smoothed estimate is.
    x, y = model.example("float64")
    clf = with_hyperparameters(model.classifier, lambda leaf: 0.3, names=("alpha", "ridge", "ddof"))
    s = gcf.stats(clf, x, y)
    prior = clf.family.prior_stats(s.conditional)
    together = gcf.merge(s.conditional, prior)
    plain = with_hyperparameters(clf, lambda leaf: 0.0)
    a, b = (
        arrays(gcf.ClassifierParams(s.count, params))
        for params in (plain.family.estimate(together), clf.family.estimate(s.conditional))
    )
    assert_close(a, b, 1e-12)


@pytest.mark.slow("float32-product", "float64-product")
@one_of_each
def test_start_is_inside_the_sets(model, dtype):
    clf = model.classifier
    s = gcf.stats(clf, *model.example(dtype))
    params = gcf.ClassifierParams(jnp.log(s.count / s.count.sum()), clf.family.start(s.conditional))
    assert jax.tree.structure(params) == jax.tree.structure(gcf.estimate(clf, s))
    stored, sets = arrays(params), declared(clf, params)

    @jax.jit
    def there_and_back(stored):
        """Through coordinates without constraints; and how far outside it is, there and beyond."""
        found = {}
        for name, parameter in sets.items():
            free = parameter.free(stored[name])
            size = stored[name].shape[-1]
            beyond = parameter.constrained(jax.tree.map(lambda a: a + 0.7, free), size)
            outside = parameter.infeasibility(stored[name]), parameter.infeasibility(beyond)
            found[name] = parameter.constrained(free, size), outside
        return found

    for name, (again, (here, beyond)) in there_and_back(stored).items():
        np.testing.assert_allclose(again, stored[name], atol=1e-5)
        assert here < 1e-6 and beyond < 1e-5, name


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("model", [BY_NAME["gaussian"], BY_NAME["multinomial"]], ids=str)
def test_roads_under_jit_and_vmap(model):
    clf = model.classifier
    examples = [model.example("float64", seed=seed) for seed in range(3)]
    # One labelling for all, and one problem without a class.
    xs = stack([x for x, _ in examples])
    ys = jnp.stack([jnp.asarray(y) for _, y in examples])
    ys = ys.at[1].set(jnp.where(ys[1] == 2, -1, ys[1]))

    @jax.jit
    @jax.vmap
    def roads(x, y):
        s = gcf.stats(clf, x, y)
        found = gcf.fit_lagrange(clf, s)
        return found, gcf.certify(clf, found.params, x, y), gcf.estimate(clf, s)

    found, certificate, closed = roads(xs, ys)
    assert found.converged.all()
    assert certificate.valid.tolist() == [True, True, True]
    for i in (0, 2):
        one, expected = jax.tree.map(lambda a, i=i: a[i], (found.params, closed))
        assert_close(one, expected, 1e-9)
    assert_close(found.params.log_prior, closed.log_prior, 1e-9)
