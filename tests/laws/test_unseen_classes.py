"""A class of which no row was seen: predicted only if a prior determines its density."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from genclf.sklearn import LinearDiscriminant, QuadraticDiscriminant
from tests.registry import MODELS, K, Model, directions, reals

UNSEEN = 1
OTHERS = [
    Model("kernels", gcf.KernelDensity(), reals),
    Model("directions-smooth", gcf.VonMisesFisher(alpha=1.0), directions),
]
CLASS_PRIORS = {
    "learned": {},
    "fixed": {"class_prior": [0.2, 0.5, 0.3]},
    "smoothed": {"class_alpha": 2.0},
    "dirichlet": {"class_prior": gcf.Dirichlet(1.7)},
}


def without_class(model, dtype="float32"):
    """Rows of which none is of the class; they are in order, so that NumPy can count them."""
    x, y = model.example(dtype)
    return x, np.where(y == UNSEEN, K - 1, y).astype(y.dtype)


def assert_never_predicted(params, x):
    log_p = np.asarray(gcf.log_posterior(params, x))
    assert np.isneginf(log_p[:, UNSEEN]).all()
    np.testing.assert_allclose(np.exp(log_p).sum(1), 1, rtol=1e-5)
    assert np.isneginf(np.asarray(gcf.log_joint(params, x))[:, UNSEEN]).all()
    assert not (np.asarray(gcf.predict(params, x)) == UNSEEN).any()
    np.testing.assert_allclose(np.exp(params.log_prior).sum(), 1, rtol=1e-5)


def is_determined(family):
    """By the words of the page on models: alpha above 0, or a prior, in every part."""
    if isinstance(family, gcf.Product):
        return all(map(is_determined, family.parts.values()))
    if isinstance(family, gcf.Independent):
        return is_determined(family.family)
    if getattr(family, "prior", None) is not None:
        return True
    return getattr(family, "alpha", 0.0) > 0 and not getattr(family, "shared", False)


SOME = [model for model in MODELS if model.name in ("gaussian-shared", "bernoulli")]
CASES = [(model, "fixed") for model in [*MODELS, *OTHERS]]
CASES += [(model, prior) for model in SOME for prior in CLASS_PRIORS if prior != "fixed"]


@pytest.mark.slow("directions-smooth-fixed", "kernels-fixed", "product-fixed")
@pytest.mark.parametrize(("model", "prior"), CASES, ids=str)
def test_a_density_that_nothing_determines_is_never_the_most_probable(model, prior):
    x, y = without_class(model)
    clf = gcf.Classifier(model.family, K, **CLASS_PRIORS[prior])
    params = gcf.fit(clf, x, y)
    if not is_determined(model.family):
        assert_never_predicted(params, x)
    elif prior != "learned":
        assert np.isfinite(params.log_prior).all()
        assert np.isfinite(np.asarray(gcf.log_posterior(params, x))[:, UNSEEN]).any()
    if isinstance(model.family, gcf.KernelDensity):
        return
    summed = gcf.estimate(clf, gcf.stats(clf, x, y))
    np.testing.assert_allclose(summed.log_prior, params.log_prior, rtol=1e-5)
    found = gcf.diagnose(clf, x, y)
    expected = np.arange(K) == UNSEEN if not is_determined(model.family) else np.zeros(K, bool)
    np.testing.assert_array_equal(found.undetermined, expected)


@pytest.mark.slow("False")
@pytest.mark.parametrize("shared", [False, True])
def test_every_road_and_door_agrees(shared):
    x, y = without_class(Model("gaussian", gcf.Gaussian(), reals))
    clf = gcf.Classifier(gcf.Gaussian("diag", shared=shared), K, class_prior=[0.2, 0.5, 0.3])
    assert_never_predicted(gcf.fit_gradient(clf, x, y).params, x)
    assert_never_predicted(gcf.fit_lagrange(clf, gcf.stats(clf, x, y)).params, x)
    batch = {**{f"x{j}": x[:, j] for j in range(x.shape[1])}, "y": y}
    schema = gcf.Schema.of(clf, batch, label="y", classes=range(K))
    assert_never_predicted(gcf.stream.fit_batches(clf, [batch], schema), x)
    kind = LinearDiscriminant if shared else QuadraticDiscriminant
    model = kind(class_prior=[0.2, 0.5, 0.3])
    model.partial_fit(x, y, classes=range(K))
    np.testing.assert_array_equal(model.predict_proba(x)[:, UNSEEN], 0)
    with pytest.raises(ValueError, match=f"class {UNSEEN} has no row with a weight above 0"):
        gcf.validate(clf, x, y)


def test_the_only_row_of_a_class_is_not_found_without_itself():
    """Leave-one-out, by downdates and by refits; permutations of labels go by the same counts."""
    x, y = Model("gaussian", gcf.Gaussian(), reals).example("float64")
    y = np.where(y == UNSEEN, 0, y)
    y[7] = UNSEEN
    for clf in (gcf.lda(K), gcf.gaussian_nb(K)):
        clf = gcf.Classifier(clf.family, K, class_prior=jnp.full(K, 1 / K))
        found = gcf.leave_one_out(clf, x, y)
        assert np.isneginf(found.log_posterior[7, UNSEEN])
        assert np.exp(np.delete(found.log_posterior[7], UNSEEN)).sum() == pytest.approx(1, 1e-5)


def test_another_class_prior_does_not_bring_it_back():
    x, y = without_class(Model("gaussian", gcf.Gaussian(), reals))
    params = gcf.fit(gcf.lda(K), x, y)
    prior = np.full(K, 1 / K, np.float32)
    with pytest.raises(ValueError, match=rf"class_prior\[{UNSEEN}\] is 0.333"):
        gcf.with_prior(params, prior)
    assert_never_predicted(params, x)
    traced = jax.jit(gcf.with_prior)(params, prior)
    assert not (gcf.predict(traced, x) == UNSEEN).any()
