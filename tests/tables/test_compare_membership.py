"""What `compare` says of calibrated posteriors, and the p-values of its best model."""

import jax
import numpy as np
import pytest

import genclf as gcf
from genclf.tables import comparison
from genclf.tables.held_out import stratified_folds

PRIOR = "class prior (baseline)"


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Three candidates, so that a comparison takes little time."""
    every, names = comparison.candidates, (PRIOR, "LDA", "Gaussian naive Bayes")
    monkeypatch.setattr(
        comparison, "candidates", lambda *given: [c for c in every(*given) if c.name in names]
    )


def test_notes_and_temperatures_tell_gains_from_none():
    """Copies of a column make naive Bayes too sure; separated classes have no calibration."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 301)
    x = y + 0.7 * rng.normal(size=301)
    copies = {f"x{i}": x + 0.01 * rng.normal(size=301) for i in range(7)}
    found = gcf.compare({**copies, "y": y}, "y", num_folds=5)
    naive = next(m for m in found.models if m.model == "Gaussian naive Bayes")
    assert naive.temperature > 3
    assert naive.log_loss - naive.log_loss_calibrated > 5 * naive.gain_error
    (note,) = [note for note in found.notes if note.startswith("Calibration lowers")]
    assert f"Gaussian naive Bayes ({naive.log_loss:.3f} to" in note
    apart = gcf.compare({"x": 9 * y + rng.normal(size=301), "y": y}, "y", num_folds=5)
    assert all(np.isnan(m.temperature) for m in apart.models if m.model != PRIOR)
    assert np.isfinite([m.log_loss_calibrated for m in apart.models]).all()


@pytest.mark.slow("True")
@pytest.mark.parametrize("missing", [False, True])
def test_p_values_of_the_best_model(missing, tmp_path):
    """They are those of `typicality`, here of LDA by sums, and by EM where a number is missing."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 83)
    x = rng.normal(size=(83, 2)) @ np.array([[1, 0.9], [0, 0.3]]) + y[:, None]
    x[::9, 0] = np.nan if missing else x[::9, 0]
    given = {"a": x[:, 0], "b": x[:, 1], "y": y}
    found = gcf.compare(given, "y", num_folds=5, conformal=True)
    assert found.best.name.startswith("LDA")
    folds, clf = stratified_folds(y, 5, 0), found.best.classifier
    with jax.enable_x64(True):
        cv = gcf.cross_validate(clf, x, y, folds, members=True)
        p = np.asarray(gcf.typicality(clf, cv, x))
    off = abs(found.best.typicality(given) - p)  # EM stops where it stops
    assert off.max() <= (1 / 30 if missing else 1e-12)
    np.testing.assert_array_equal(
        found.best.predict_set(given, 0.2), found.best.typicality(given) > 0.2
    )
    assert not found.best.predict_set({"a": [30.0], "b": [-30.0]}).any()
    gcf.save(tmp_path / "best.genclf", found.best)
    again = gcf.load(tmp_path / "best.genclf")
    np.testing.assert_array_equal(again.typicality(given), found.best.typicality(given))
    with pytest.raises(ValueError, match="give conformal=True to compare"):
        found.best.fit(given, y).typicality(given)
    with pytest.raises(ValueError, match=r"alpha is 2.0, expected"):
        again.predict_set(given, 2.0)
