"""The scores, the remarks and the weights of `compare`, beside scikit-learn and SciPy."""

from dataclasses import replace

import jax
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn import metrics

import genclf as gcf
from genclf.tables import comparison
from genclf.tables.baselines import design_matrix, on_columns, on_terms
from genclf.tables.candidates import candidates
from genclf.tables.cells import ObjectCells
from genclf.tables.features import features_of
from genclf.tables.frames import cells_of
from genclf.tables.held_out import HeldOut, p_value, stratified_folds
from genclf.tables.kinds import Reading
from genclf.tables.remarks import column_remarks

N = 149
PRIOR = "class prior (baseline)"


def table():
    rng = np.random.default_rng(2)
    y = rng.integers(0, 3, N)
    return pd.DataFrame(
        {
            "size": np.where(np.arange(N) % 9 == 0, np.nan, rng.normal(size=N) + y),
            "colour": np.array(["red", "green", "blue"])[(y + rng.integers(0, 2, N)) % 3],
            "w": rng.integers(0, 4, N),
            "y": np.array(["a", "b", "c"])[y],
        }
    )


@pytest.fixture(scope="module")
def found():
    few = lambda *given: [c for c in every(*given) if c.name in (PRIOR, "mixed naive Bayes")]  # noqa: E731
    every = comparison.candidates
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparison, "candidates", few)
        yield gcf.compare(table().drop(columns="w"), "y", num_folds=5)


def test_calibrations_are_those_of_recalibrate(found):
    """Each row by the calibration to the other folds, of the best model and of all others."""
    best = next(model for model in found.models if model.model == found.best.name)
    folds = stratified_folds(found.y, 5, 0)
    with jax.enable_x64(True):
        whole = gcf.recalibrate(found.log_posterior, found.y, folds=folds)
        log_q = np.empty_like(found.log_posterior)
        for fold in range(5):
            label = np.where(folds == fold, -1, found.y)
            log_q[folds == fold] = gcf.recalibrate(found.log_posterior, label)(
                found.log_posterior[folds == fold]
            )
    np.testing.assert_allclose(found.log_posterior_calibrated, log_q, 1e-6, 1e-8)
    for name in ("slope", "bias", "log_prior", "log_loss_nested", "gain_error"):
        np.testing.assert_allclose(getattr(found.recalibration, name), getattr(whole, name), 1e-7)
    loss = metrics.log_loss(found.y, np.exp(log_q))
    assert best.log_loss_calibrated == pytest.approx(loss, rel=1e-6)
    assert best.gain_error == pytest.approx(float(whole.gain_error))
    assert best.temperature == pytest.approx(1 / float(whole.slope))
    calibrated = gcf.with_calibration(found.best.params, found.recalibration)
    p = replace(found.best, params=calibrated).predict_proba(table()[:7])
    raw = found.best.log_posterior(table()[:7])
    np.testing.assert_allclose(p, np.exp(found.recalibration(raw.astype(np.float32))), 1e-4)


def test_scores_are_those_of_scikit_learn(found):
    best = next(model for model in found.models if model.model == found.best.name)
    p, y = np.exp(found.log_posterior), found.y
    assert best.log_loss == pytest.approx(metrics.log_loss(y, p), rel=1e-9)
    assert best.accuracy == pytest.approx((p.argmax(1) == y).mean())
    assert best.balanced_accuracy == pytest.approx(metrics.balanced_accuracy_score(y, p.argmax(1)))
    rarest = np.bincount(y).argmin()
    area = metrics.average_precision_score(y == rarest, p[:, rarest])
    assert best.average_precision == pytest.approx(area)
    assert best.auc == pytest.approx(metrics.roc_auc_score(y, p, multi_class="ovr"))
    brier = np.square(p - np.eye(3)[y]).sum(1).mean()
    assert best.brier == pytest.approx(brier, rel=1e-9)
    assert best.problem == "" and best.brier_error > 0


def test_the_class_prior_ranks_nothing(found):
    (prior,) = [model for model in found.models if model.model == PRIOR]
    assert prior.auc == 0.5
    assert prior.average_precision == pytest.approx(min(found.shares.values()))


def test_the_best_generative_model_is_named(found):
    note = found.notes[[n.startswith("The best generative") for n in found.notes].index(True)]
    first, best = found.models[0], next(m for m in found.models if m.model == found.best.name)
    if first is best:
        assert (
            note
            == f"The best generative model is {best.model}; no other model has a lower log-loss."
        )
    else:
        assert f"{best.model}; its log-loss is {best.log_loss - first.log_loss:.3f} above" in note


def test_columns_that_gaussians_hardly_fit_are_named(monkeypatch):
    names = PRIOR, "Gaussian naive Bayes"
    few = lambda *given: [c for c in candidates(*given) if c.name in names]  # noqa: E731
    monkeypatch.setattr(comparison, "candidates", few)
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 300)
    mostly = np.where(rng.random(300) < 0.9, 0, rng.lognormal(0, 3, 300))
    x = {"zeros": mostly, "tails": rng.standard_cauchy(300), "size": rng.normal(size=300)}
    notes = " ".join(gcf.compare({**x, "y": y}, "y", num_folds=3).notes)
    assert "No generative model has a lower log-loss than the class prior." in notes
    assert "Worse than the class prior in log-loss: " in notes and "Gaussian naive Bayes" in notes
    assert "zeros (9" in notes and "of it is 0)" in notes and "tails (a kurtosis of" in notes
    assert "size (" not in notes


def test_softmax_is_a_baseline_and_never_the_best(found):
    names = [model.model for model in found.models]
    baselines = {"softmax regression (baseline)", "softmax on naive Bayes (baseline)", PRIOR}
    assert baselines <= {*names}
    assert found.best.name == "mixed naive Bayes"
    assert found.models[0].p_value == 1
    assert [m.log_loss for m in found.models] == sorted(m.log_loss for m in found.models)


def test_softmax_is_scikit_learns_logistic_regression(x64):
    cells = cells_of(table().drop(columns=["w", "y"]), "table")
    columns = Reading().of_table(cells, None)
    x, y = design_matrix(cells, columns), np.unique(table()["y"], return_inverse=True)[1]
    size = table()["size"]
    scaled = ((size - size.mean()) / size.std(ddof=0)).fillna(0.0)
    colours = pd.get_dummies(table()["colour"], dtype=float)
    expected = np.column_stack([scaled, size.isna(), colours])
    np.testing.assert_allclose(x, expected, rtol=1e-12, atol=1e-12)
    folds = stratified_folds(y, 5, seed=0)
    (trial,) = on_columns(cells, columns, y, folds, np.ones(N))
    train, test = folds != 2, folds == 2
    # The penalty of genclf is relative to the number of rows.
    params = gcf.fit(gcf.SoftmaxRegression(3, l2=1 / train.sum()), x[train], y[train])
    loss = metrics.log_loss(y[test], np.exp(gcf.log_posterior(params, x[test])))
    assert trial.scores.log_loss[2] == pytest.approx(loss, rel=1e-4)
    assert trial.scores.converged.all()


def test_softmax_has_no_probability_of_0():
    """Far from the boundary, probabilities underflow but their logarithms do not."""
    x = np.repeat([[0.0], [1.0]], 20, 0)
    x[5] = 3000.0
    y = np.repeat([0, 1], 20)
    table = {"x": x[:, 0], "y": y}
    found = gcf.compare(table, "y", kinds={"x": "numeric"}, num_folds=2)
    (softmax,) = [m for m in found.models if m.model == "softmax regression (baseline)"]
    assert np.isfinite(softmax.log_loss)


def test_softmax_on_terms_of_naive_bayes(x64):
    """Its features are the log-ratios of naive Bayes, of training rows alone."""
    data = table()
    y = np.unique(data["y"], return_inverse=True)[1]
    cells = cells_of(data.drop(columns=["w", "y"]), "table")
    candidate = comparison.candidates(Reading().of_table(cells, None), N, 3, 5)[-1]
    assert candidate.name == "mixed naive Bayes"
    given = features_of(cells, candidate.columns, None, learning=True)
    folds = stratified_folds(y, 5, seed=0)
    (trial,) = on_terms(candidate, given, y, folds, np.ones(N))
    train, test = folds != 1, folds == 1
    size, colour = data["size"].to_numpy(), np.unique(data["colour"], return_inverse=True)[1]
    terms = []
    for k in (1, 2):
        ratio = np.zeros((2, N))
        for of, sign in ((k, 1), (0, -1)):
            own = size[train & (y == of)]
            log_p = stats.norm.logpdf(size, np.nanmean(own), np.nanstd(own))
            ratio[0] += sign * np.where(np.isnan(size), 0, log_p)
            count = np.bincount(colour[train & (y == of)], minlength=3) + 1
            ratio[1] += sign * np.log(count / count.sum())[colour]
        terms += [ratio]
    x = np.concatenate(terms).T
    x = (x - x[train].mean(0)) / x[train].std(0)
    params = gcf.fit(gcf.SoftmaxRegression(3, l2=1 / train.sum()), x[train], y[train])
    loss = metrics.log_loss(y[test], np.exp(gcf.log_posterior(params, x[test])))
    assert trial.scores.log_loss[1] == pytest.approx(loss, rel=1e-4)


def test_p_values_are_those_of_a_paired_test():
    rng = np.random.default_rng(0)
    one, other = rng.normal(1.0, 0.1, (2, 7))
    same = np.full(7, 0.5)

    def of(loss, brier=same):
        fields = HeldOut.__dataclass_fields__
        nothing = {name: np.zeros(7) for name, field in fields.items() if "ndarray" in field.type}
        numbers = dict.fromkeys(["balanced_accuracy", "auc", "average_precision"], 0.0)
        numbers["impossible"] = 0
        return HeldOut(**nothing | numbers | {"log_loss": loss, "brier": brier})

    d = one - other
    t = d.mean() / np.sqrt((1 / 7 + 1 / 6) * d.var(ddof=1))
    expected = 2 * stats.t.cdf(-abs(t), 6)
    assert p_value(of(one), of(other)) == pytest.approx(2 * expected, rel=1e-12)
    assert p_value(of(same, one), of(same, other)) == pytest.approx(2 * expected, rel=1e-12)
    # Without the correction it is the plain paired test.
    plain = stats.ttest_rel(one, other)
    assert t == pytest.approx(plain.statistic * np.sqrt((1 / 7) / (1 / 7 + 1 / 6)), rel=1e-12)
    assert p_value(of(one), of(one)) == 1.0 and p_value(of(one), of(one + 1)) < 1e-6
    # Where a log-loss is infinite, or decided by a few rows, the Brier score tells models apart.
    endless = np.append(one[:6], np.inf)
    assert p_value(of(endless), of(other)) == 1.0
    assert p_value(of(endless, one), of(other, one + 0.1)) < 1e-6


def test_weights_are_repeated_rows(monkeypatch):
    every = comparison.candidates
    monkeypatch.setattr(comparison, "candidates", lambda *a: [every(*a)[0], every(*a)[-1]])
    for name in ("on_columns", "on_terms"):
        monkeypatch.setattr(comparison, name, lambda *given: [])
    data = table()
    folds = np.arange(N) % 3
    repeated = data.loc[data.index.repeat(data["w"])]
    used = data[data["w"] > 0]
    of = {len(used): folds[used.index], len(repeated): folds[repeated.index]}
    monkeypatch.setattr(comparison, "stratified_folds", lambda y, *_: of[len(y)])
    one = gcf.compare(data, "y", weights="w", num_folds=3)
    other = gcf.compare(repeated.drop(columns="w"), "y", num_folds=3)
    assert (
        one.num_rows == len(used) and f"Left out, of weight 0: {N - len(used)} rows." in one.notes
    )
    others = {model.model: model for model in other.models}
    for model in one.models:
        if not model.model.startswith("softmax"):  # its penalty depends on the number of rows
            np.testing.assert_allclose(model[2:-2], others[model.model][2:-2], rtol=1e-9)
    np.testing.assert_allclose(one.best.predict_proba(data), other.best.predict_proba(data), 1e-9)
    assert one.shares == pytest.approx(other.shares)
    with pytest.raises(ValueError, match=r"row 4, column 'w': -1\.0, expected a weight >= 0"):
        gcf.compare(data.assign(w=np.where(np.arange(N) == 4, -1.0, 1.0)), "y", weights="w")
    with pytest.raises(ValueError, match="weights names the column 'v'"):
        gcf.compare(data, "y", weights="v")


def remarks(**columns):
    y = np.arange(100) % 2
    cells = cells_of({"y": y, **columns}, "table")
    del cells["y"]
    label = ObjectCells.of(y.tolist())
    return column_remarks(cells, Reading(label=label).of_table(cells, None), y, np.ones(100))


def test_near_copies_and_leaks_are_named():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=100), np.arange(100) % 2
    assert remarks(a=x, b=rng.normal(size=100)) == []
    (note,) = remarks(a=x, b=3 * x + 1e-3 * rng.normal(size=100), c=rng.normal(size=100))
    assert note.startswith("Near copies of each other: a and b.")
    colours = rng.integers(0, 3, 100)
    (note,) = remarks(a=np.array(["x", "y", "z"])[colours], b=colours + 4)
    assert note.startswith("Near copies of each other: a and b.")
    (note,) = remarks(a=x, b=x + 100 * y)
    assert note.startswith("One column alone gives the class of nearly all rows: b (100.0%).")
    (note,) = remarks(a=x, b=np.where(np.arange(100) == 7, "p", np.array(["p", "q"])[y]))
    assert note.startswith("One column alone gives the class of nearly all rows: b (99.0%).")


def test_a_model_that_is_worse_than_the_prior_is_named(monkeypatch):
    every = comparison.candidates
    monkeypatch.setattr(comparison, "candidates", lambda *a: [every(*a)[0], every(*a)[-1]])
    for name in ("on_columns", "on_terms"):
        monkeypatch.setattr(comparison, name, lambda *given: [])
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, N)
    one = np.where(rng.random(N) < 0.3, y, rng.integers(0, 2, N))
    data = pd.DataFrame({f"c{j}": np.array(["p", "q"])[one] for j in range(40)}).assign(y=y)
    data["more"] = rng.integers(0, 3, N)  # so that there is a model of all columns
    notes = " ".join(gcf.compare(data, "y", num_folds=3).notes)
    assert "Worse than the class prior in log-loss: mixed naive Bayes." in notes
    assert "Near copies of each other: c0 and c1, c0 and c2" in notes
