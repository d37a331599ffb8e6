"""What a user's type checker sees: every public function says what it returns."""

import re
from pathlib import Path

import pytest

api = pytest.importorskip("mypy.api")
ROOT = Path(__file__).parents[2]

REVEALED = {
    "gcf.lda(2)": "Classifier",
    "gcf.fit(clf, x, y)": "ClassifierParams",
    "gcf.fit(gcf.SoftmaxRegression(2), x, y)": "SoftmaxParams",
    "gcf.stats(clf, x, y)": "ClassifierStats",
    "gcf.merge(stats, stats)": "ClassifierStats",
    "gcf.estimate(clf, stats)": "ClassifierParams",
    "gcf.predict(params, x)": "Array",
    "gcf.log_posterior(params, x)": "Array",
    "gcf.log_joint(params, x)": "Array",
    "gcf.em(clf, x, y)": "EMSolution",
    "gcf.em(clf, x, y).params": "ClassifierParams",
    "gcf.em(clf, x, y).value": "Array",
    "gcf.fit_gradient(clf, x, y)": "GradientSolution",
    "gcf.fit_lagrange(clf, x, y)": "LagrangeSolution",
    "gcf.fit_lagrange(clf, stats)": "LagrangeSolution",
    "gcf.posterior(clf, x, y)": "Posterior",
    "gcf.predictive(clf, stats)": "ClassifierParams",
    "gcf.log_evidence(clf, x, y)": "Array",
    "gcf.fit_prior(clf, stats)": "PriorSolution",
    "gcf.certify(clf, params, x, y)": "Certificate",
    "gcf.sample(key, params, (3,))[1]": "Array",
    "gcf.diagnose(clf, x, y)": "Diagnosis",
    "gcf.cross_validate(clf, x, y, folds)": "CrossValidation",
    "gcf.leave_one_out(clf, x, y)": "CrossValidation",
    'gcf.tune(gcf.lda, {"ridge": [0.0]}, x, y, folds)': "Tuning",
    'gcf.tune(gcf.lda, {"ridge": np.array([0.0])}, x, y, folds)': "Tuning",
    "gcf.fit_many(clf, [(x, y)])": "ClassifierParams",
    "gcf.fit_many(gcf.SoftmaxRegression(2), [(x, y)])": "SoftmaxParams",
    "gcf.explain(params, x)": "Explanation",
    "gsk.LinearDiscriminant().fit(x, y)": "LinearDiscriminant",
    "gsk.LinearDiscriminant().fit(x, y).predict(x)": "ndarray",
    'gsk.MixedNB().partial_fit(x, y, classes=["a", "b"])': "MixedNB",
}
SCRIPT = """
import jax, numpy as np
import genclf as gcf, genclf.sklearn as gsk

key = jax.random.key(0)
x, y, folds = np.zeros((4, 2)), np.array([0, 1, 0, 1]), np.arange(4) // 2
clf = gcf.lda(2)
params, stats = gcf.fit(clf, x, y), gcf.stats(clf, x, y)
"""


def test_the_types_of_a_user_script(tmp_path):
    lines = SCRIPT + "".join(f"reveal_type({call})\n" for call in REVEALED)
    script = tmp_path / "script.py"
    script.write_text(lines)
    # With the options of `make types`, whose cache then serves.
    text, errors, _ = api.run([str(script), "--config-file", str(ROOT / "pyproject.toml")])
    found = re.findall(r'Revealed type is "(.*)"', text)
    assert len(found) == len(REVEALED), text + errors
    shown = {
        call: kind.split("[")[0].split(".")[-1] for call, kind in zip(REVEALED, found, strict=True)
    }
    assert shown == REVEALED
