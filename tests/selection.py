"""Which cases `make test` takes, and which worker runs them.

`--fast` takes laws on one model of each kind, cases in float32 and float64 in turn, and no case
that its test marks as slow: one of more than some 1.25 s, or one that starts processes.
`@pytest.mark.slow` marks all cases of a test, `slow("a", "b")` those with these ids, and
`slow(but=("a",))` the others.
"""

import collections
import itertools

import pytest

SLOW_EXAMPLES = {
    "bayes.evidence.fit_prior",
    "bayes.generative_story.story",
    "bayes.posterior.posterior",
    "classifier.diagnosis.diagnose",
    "families.combined.mixture.Mixture",
    "families.directions.von_mises_fisher.VonMisesFisher",
    "fitting.softmax.SoftmaxRegression",
    "fitting.softmax.softmax_form",
    "many.fits.fit_many",
    "many.generalise.generalise",
    "many.group_test.group_test",
    "many.searchlight.searchlight",
    "many.searchlight.sliding",
    "many.stable_features.stable_features",
    "multivariate.cat_scores.cat_scores",
    "multivariate.patterns.patterns",
    "multivariate.ranking.rank_features",
    "multivariate.ranking.threshold_path",
    "multivariate.row_space.row_space",
    "plot.pairs.pairs",
    "plot.regions.boundaries",
    "plot.scores.learning_curve",
    "plot.scores.null",
    "plot.scores.reliability",
    "roads.certificate.certify",
    "roads.constrained.solve_constrained",
    "roads.gradient.fit_gradient",
    "roads.lagrange.fit_lagrange",
    "roads.standard_errors.standard_errors",
    "select.bootstrap.bootstrap",
    "select.learning_curve.learning_curve",
    "select.permutation.permutation_test",
    "select.tune.tune",
    "sklearn.searchlight.CrossValidatedScore",
    "sums.merging.pool",
    "tables.comparison.compare",
}


def pytest_addoption(parser):
    """`--fast` leaves out models, precisions and slow cases."""
    parser.addoption("--fast", action="store_true", help="some of the cases, and no slow one")


def _test_of(case):
    return case.partition("[")[0]


def _is_slow(item):
    """Whether a case is marked as slow where it is written, or an example is named above."""
    if isinstance(item, pytest.DoctestItem):
        return item.name.removeprefix("genclf.") in SLOW_EXAMPLES
    mark, case = item.get_closest_marker("slow"), item.nodeid.partition("[")[2][:-1]
    if mark is None:
        return False
    if "but" in mark.kwargs:
        return case not in mark.kwargs["but"]
    return not mark.args or case in mark.args


def _of_other_precision(groups):
    """Take out of the groups one of every two items that differ in their precision alone.

    float32 and float64 stay in turn. A test without other parameters keeps both.
    """
    cases = collections.defaultdict(lambda: collections.defaultdict(list))
    for item in itertools.chain(*groups.values()):
        params = item.callspec.params if hasattr(item, "callspec") else {}
        if len(params) > 1 and params.get("dtype") in ("float32", "float64"):
            cases[_test_of(item.nodeid)][item.nodeid.replace(params["dtype"], "")].append(item)
    pairs = [[pair for pair in of.values() if len(pair) == 2] for of in cases.values()]
    out = [pair[i % 2] for of in pairs for i, pair in enumerate(of)]
    for group in groups.values():
        group[:] = [item for item in group if item not in out]
    return out


def _model_of(item):
    """The name of the model that a case is about."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return str(params.get("model", params.get("name")))


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups
def pytest_collection_modifyitems(config, items):
    """All tests of a model one after the other, in one worker, so that they share its programs."""
    from tests.registry import MIXTURES, MODELS, ONE_OF_EACH, WITH_HOLES  # after the import hook

    names = {model.name for model in MODELS + MIXTURES + WITH_HOLES}
    fast = config.getoption("--fast")
    groups, left_out = collections.defaultdict(list), []
    models = [_model_of(item) for item in items]
    of_one = {
        _test_of(item.nodeid) for item, m in zip(items, models, strict=True) if m in ONE_OF_EACH
    }
    for item, model in zip(items, models, strict=True):
        of_model = model in names
        other = fast and of_model and model not in ONE_OF_EACH and _test_of(item.nodeid) in of_one
        if other or (fast and _is_slow(item)):
            left_out.append(item)
        else:
            groups[model if of_model else item.nodeid.partition("::")[0]].append(item)
    if fast:
        left_out += _of_other_precision(groups)
    config.hook.pytest_deselected(items=left_out)
    items.clear()
    for name, group in sorted(groups.items(), key=lambda pair: -len(pair[1])):
        if config.pluginmanager.hasplugin("xdist"):
            for item in group:
                item.add_marker(pytest.mark.xdist_group(name))
        items += group


def pytest_collection_finish(session):
    """Raise where xdist ignores the groups: then both workers compile the same programs."""
    if getattr(session.config.option, "loadgroup", False) and hasattr(
        session.config, "workerinput"
    ):
        if not all("@" in item.nodeid for item in session.items):
            raise pytest.UsageError("this version of pytest-xdist does not group tests")
