"""Estimators of closed-form models compile nothing, and touch no device."""

import subprocess
import sys

SESSION = """
import jax
import numpy as np
import pandas as pd
from scipy.sparse import csr_array
from sklearn.model_selection import GridSearchCV

from genclf import sklearn as estimators

events = []
jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: events.append(name))
rng = np.random.default_rng(0)
y = np.arange(97) % 3
x = rng.normal(size=(97, 5)) + y[:, None]
counts = rng.poisson(2.0, (97, 5)) + y[:, None]
table = pd.DataFrame(x, columns=list("abcde")).assign(
    colour=np.array(["red", "green"])[rng.integers(0, 2, 97)],
    note=[f"one two {'three' if k else 'four'} u{i}" for i, k in enumerate(y)],
)
table.iloc[::7, [0, 5]] = None
ROWS = {
    "LinearDiscriminant": x,
    "QuadraticDiscriminant": x,
    "RegularizedDiscriminant": x,
    "GaussianNB": x,
    "BernoulliNB": x,
    "MultinomialNB": counts,
    "CategoricalNB": counts,
    "MixedNB": table,
}
for name, rows in ROWS.items():
    model = getattr(estimators, name)().fit(rows, y, np.arange(97) % 4)
    model.predict(rows), model.predict_proba(rows), model.predict_log_proba(rows)
    model.score(rows, y), model.score_samples(rows), model.decision_function(rows)
    if name == "LinearDiscriminant":
        model.coef_, model.intercept_
    if name != "MixedNB":
        added = getattr(estimators, name)()
        if name == "CategoricalNB":
            added.set_params(num_values=20)
        for part in (slice(0, 40), slice(40, 97)):
            added.partial_fit(rows[part], y[part], classes=[0, 1, 2])
for name in ("BernoulliNB", "MultinomialNB"):
    sparse = csr_array(counts.astype(float))
    getattr(estimators, name)().fit(sparse, y).predict_proba(sparse)
grid = {"shrinkage": [0.1, "oas", "ledoit-wolf"]}
GridSearchCV(estimators.LinearDiscriminant(), grid, cv=3).fit(x, y)
assert not events, events
"""


def test_a_session_without_an_event_of_jax():
    """JAX reports each trace, compilation and start of a backend."""
    done = subprocess.run([sys.executable, "-c", SESSION], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
