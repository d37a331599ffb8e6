"""The story told in numpyro is the model: the same density, the same draws, the same inferences."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.contrib.funsor import enum, log_density as enumerated_log_density
from numpyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO
from numpyro.infer.autoguide import AutoDelta
from numpyro.infer.util import log_density
from scipy.stats import chi2_contingency, ks_2samp, kstest

import genclf as gcf
from genclf.families.capabilities import HasConjugatePrior
from genclf.families.gaussian.student_t import FINITE
from genclf.roads.problem import arrays, set_arrays
from tests.registry import BY_NAME, DISTINCT, FAMILIES, K, having, leaves_of

every = pytest.mark.parametrize("model", having(HasConjugatePrior, DISTINCT), ids=str)


@pytest.fixture(autouse=True)
def relaxed():
    """The story runs in numpyro's code, which mixes ranks and dtypes; NUTS in float64."""
    with (
        jax.enable_x64(True),
        jax.numpy_rank_promotion("allow"),
        jax.numpy_dtype_promotion("standard"),
        jax.debug_key_reuse(False),
    ):
        yield


def joint(params, x, y):
    return np.asarray(gcf.log_joint(params, x))[np.arange(len(y)), y].sum()


def density(program, *args, of=log_density, sites=None):
    """Log-density of what a program tells, compiled as a whole."""
    return jax.jit(lambda sites: of(program, args, {}, sites)[0])(sites or {})


def drawn_sites(program, x, y, seed=0):
    """Values of the parameters' sites, drawn from the prior."""

    @jax.jit
    def draw(key):
        told = numpyro.handlers.trace(numpyro.handlers.seed(program, key)).get_trace(x, y)
        return {
            name: site["value"]
            for name, site in told.items()
            if site["type"] == "sample" and not site["is_observed"]
        }

    return draw(jax.random.key(seed))


def params_of(program, x, y, sites, like):
    """The params whose arrays the sites determine, and the log-density at the sites."""

    @jax.jit
    def tell(sites):
        density, told = log_density(program, (x, y), {}, sites)
        return set_arrays(like, {name: told[name]["value"] for name in arrays(like)}), density

    return tell(sites)


@pytest.mark.slow("gaussian-diag", "gaussian-shared", "poisson", "product")
@every
def test_density_of_fixed_params_is_the_log_joint(model):
    x, y = model.example("float64")
    for inference in ("map", "predictive"):
        clf = gcf.Classifier(model.bayesian.family, K, inference=inference)
        params = gcf.fit(clf, x, y)
        program = gcf.bayes.story(params)
        sites = drawn_sites(program, x, y)
        if sites:  # a document's own theta is no part of the predictive's density
            assert all(name.endswith(".theta") for name in sites)
            continue
        np.testing.assert_allclose(density(program, x, y), joint(params, x, y), rtol=1e-10)


@pytest.mark.slow(but=("multinomial-tokens",))
@every
def test_density_of_the_story_is_the_log_joint_and_the_log_prior(model):
    clf, (x, y) = model.bayesian, model.example("float64")
    s = gcf.stats(clf, x, y)
    program, before = gcf.bayes.story(clf), gcf.bayes.prior(clf, s)
    params, told = params_of(program, x, y, drawn_sites(program, x, y), gcf.fit(clf, x, y))
    ours = joint(params, x, y) + before.log_prob(params)
    np.testing.assert_allclose(told, ours, rtol=1e-10)


@pytest.mark.slow("gaussian-shared", "product")
@every
def test_unlabelled_rows_are_marginalised(model):
    x, y = model.example("float64", n=13)
    params = gcf.fit(model.bayesian, x, y)
    hidden = np.where(np.arange(13) % 3 == 0, -1, y)
    program = enum(gcf.bayes.story(params), first_available_dim=-2)
    found = density(program, x, hidden, of=enumerated_log_density)
    labelled = np.asarray(gcf.log_joint(params, x))[np.arange(13), y][hidden >= 0].sum()
    expected = labelled + np.asarray(gcf.log_marginal(params, x))[hidden < 0].sum()
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.slow("poisson", "product")
@pytest.mark.parametrize("model", [m for m in FAMILIES if m.generative], ids=str)
def test_fast_draws_are_those_of_the_story(model):
    clf, (x, y) = model.bayesian, model.example("float64")
    params = gcf.fit(clf, x, y)
    fast, labels = gcf.sample(jax.random.key(0), params, (4001,))
    simulate = Predictive(gcf.bayes.story(params), num_samples=1)
    told = jax.jit(lambda key: simulate(key, num_rows=4001))(jax.random.key(1))
    assert same_law(np.asarray(labels), np.asarray(told["y"][0])) > 1e-5
    columns = (
        {f"x.{name}": block for name, block in fast.items()} if isinstance(x, dict) else {"x": fast}
    )
    for name, block in columns.items():
        parts = [v for k, v in sorted(told.items()) if k == name or k.startswith(name + ".")]
        other = np.concatenate([np.asarray(part[0]) for part in parts], -1)
        assert other.shape == block.shape
        for j in range(block.shape[-1]):
            assert same_law(np.asarray(block[:, j]), other[:, j]) > 1e-5, (name, j)
        # How columns hang together, within a class and over classes.
        both = np.asarray(block[:, 0] * block[:, -1]), other[:, 0] * other[:, -1]
        assert same_law(*both) > 1e-5


def same_law(a, b):
    """p-value of the hypothesis that two samples come from one distribution."""
    if np.issubdtype(a.dtype, np.floating):
        return ks_2samp(a, b).pvalue
    top = max(a.max(), b.max()) + 1
    table = np.stack([np.bincount(a, minlength=top), np.bincount(b, minlength=top)])
    rare = table.sum(0) < 20
    table = np.column_stack([table[:, ~rare], table[:, rare].sum(1)])
    table = table[:, table.sum(0) > 0]
    return chi2_contingency(table).pvalue if table.shape[1] > 1 else 1.0


def map_by_svi(program, x, y):
    """The mode of the sites, by quasi-Newton steps on the loss of a point-mass guide."""
    guide = AutoDelta(program)
    svi = SVI(program, guide, numpyro.optim.Minimize(method="BFGS"), Trace_ELBO())
    fitted = svi.run(jax.random.key(0), 3, x, y, progress_bar=False)
    return guide.median(fitted.params)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gaussian", "categorical"])
def test_map_by_svi_is_the_closed_form(name):
    model = BY_NAME[name]
    clf, (x, y) = model.bayesian, model.example("float64")
    program, closed = gcf.bayes.story(clf), gcf.fit(model.bayesian, x, y)
    found, _ = params_of(program, x, y, map_by_svi(program, x, y), closed)
    for (path, a), (_, b) in zip(leaves_of(found), leaves_of(closed), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4, err_msg=path)


@pytest.mark.slow
def test_map_of_softmax_regression_is_its_fit():
    x, y = BY_NAME["gaussian"].example("float64")
    model = gcf.SoftmaxRegression(K, l2=0.1)
    sites = map_by_svi(gcf.bayes.story(model), x, y)
    coef, intercept = gcf.linear_form(gcf.fit(model, x, y))
    np.testing.assert_allclose(sites["coef"], coef, atol=1e-4)
    np.testing.assert_allclose(sites["intercept"], intercept, atol=1e-4)


def nuts(program, *args, chains=2, samples=400):
    """Draws of NUTS by chain, each chain with a seed of its own."""
    kernel = MCMC(
        NUTS(program),
        num_warmup=300,
        num_samples=samples,
        num_chains=chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    kernel.run(jax.random.key(0), *args)
    return kernel.get_samples(group_by_chain=True)


@pytest.mark.slow
def test_nuts_finds_the_exact_posterior():
    model = BY_NAME["categorical"]
    clf, (x, y) = model.bayesian, model.example("float64", n=23)
    post = gcf.posterior(clf, gcf.stats(clf, x, y))
    found = nuts(gcf.bayes.story(clf), x, y, chains=4)
    for site, draws in arrays(post.sample(jax.random.key(9), (4001,))).items():
        chains = np.asarray(found[site]).reshape(4, 400, -1)
        draws = np.asarray(draws).reshape(4001, -1)
        used = draws.std(0) > 0
        chains, draws = chains[..., used], draws[:, used]
        # Ranks of thinned draws among exact ones are uniform, in each chain.
        rank = (draws[None, None, ::4] < chains[:, :, None]).mean(2)
        for of_chain in np.moveaxis(rank, 2, 1).reshape(-1, 400):
            size = numpyro.diagnostics.effective_sample_size(of_chain[None])
            thin = of_chain[:: max(1, int(np.ceil(400 / size)))]
            assert kstest(thin, "uniform").pvalue > 1e-5, site
        # Means and intervals agree within Monte Carlo error, all chains together.
        size = numpyro.diagnostics.effective_sample_size(chains)
        error = np.sqrt(1 / size + 1 / len(draws))
        flat = chains.reshape(1600, -1)
        assert (np.abs(flat.mean(0) - draws.mean(0)) < 5 * error * draws.std(0)).all(), site
        for level in (0.05, 0.95):
            below = (flat < np.quantile(draws, level, axis=0)).mean(0)
            assert (np.abs(below - level) < 6 * error * np.sqrt(level * (1 - level))).all(), site


@pytest.mark.slow
def test_nuts_with_unlabelled_rows():
    # Against importance weighting of exact draws: each weighted by the likelihood of the
    # unlabelled rows.
    model = BY_NAME["bernoulli"]
    clf, (x, y) = model.bayesian, model.example("float64")
    hidden = np.where(np.arange(len(y)) % 4 == 0, -1, y)
    found = nuts(gcf.bayes.story(clf), x, hidden)
    drawn = gcf.posterior(clf, gcf.stats(clf, x, hidden)).sample(jax.random.key(3), (20011,))
    weight = jax.vmap(lambda p: gcf.log_marginal(p, x[hidden < 0]).sum())(drawn)
    weight = np.asarray(jax.nn.softmax(weight))
    effective = 1 / (weight**2).sum()
    assert effective > 500
    for site, draws in arrays(drawn).items():
        draws = np.asarray(draws)
        mean = np.tensordot(weight, draws, 1)
        sd = np.sqrt(np.tensordot(weight, (draws - mean) ** 2, 1))
        assert (np.abs(found[site].mean((0, 1)) - mean) < 6 * sd / np.sqrt(300)).all(), site


@pytest.mark.slow
def test_hierarchical_smoothing():
    """Of a concentration that is a site: its own density, and then the story with that number."""
    x, y = BY_NAME["multinomial"].example("float64")
    prior = dist.Gamma(2.0, 1.0)
    of = lambda a: gcf.bayes.story(gcf.Classifier(gcf.Multinomial(prior=gcf.Dirichlet(a)), K))  # noqa: E731
    sites = drawn_sites(of(prior), x, y)
    given = {name: value for name, value in sites.items() if name != "concentration"}
    for a in (0.3, 4.0):
        found = density(of(prior), x, y, sites=given | {"concentration": a})
        expected = density(of(a), x, y, sites=given) + prior.log_prob(a)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.slow
def test_a_heavy_tailed_density_has_its_degrees_of_freedom_for_a_site():
    x, y = BY_NAME["gaussian"].example("float64")
    prior = dist.Gamma(2.0, 0.1)

    def heavy(normal):
        dof, ones = numpyro.sample("dof", prior), jnp.ones(len(normal.mean))
        return gcf.StudentTParams(
            normal.mean, normal.scale, dof[None], ones, normal.covariance, normal.shared
        )

    niw = gcf.NormalInverseWishart(mean=0.0, kappa=0.1, scale=1.0, dof=7.0)
    clf = gcf.Classifier(gcf.Gaussian("diag", shared=True, prior=niw), K)
    plain, program = gcf.bayes.story(clf), gcf.bayes.story(clf, density=heavy)
    sites = drawn_sites(plain, x, y)
    normal, told = params_of(plain, x, y, sites, gcf.fit(clf, x, y))
    c, ones = normal.conditional, jnp.ones(K)
    for dof in (3.0, 30.0):
        found = density(program, x, y, sites=sites | {"dof": np.float64(dof)})
        tails = gcf.StudentTParams(c.mean, c.scale, jnp.array([dof]), ones, c.covariance, c.shared)
        change = joint(gcf.ClassifierParams(normal.log_prior, tails), x, y) - joint(normal, x, y)
        np.testing.assert_allclose(found, told + change + prior.log_prob(dof), rtol=1e-10)


def test_a_family_of_ones_own_is_told_by_its_own_density():
    class Coin(gcf.families.base.Params):
        logits: jax.Array

        @property
        def support(self):
            return FINITE

        @property
        def num_features(self):
            return 1

        def log_prob(self, x):
            return jnp.where(
                x == 1, jax.nn.log_sigmoid(self.logits), jax.nn.log_sigmoid(-self.logits)
            )

        def log_lik(self, stats):
            raise NotImplementedError

        def sample(self, key, y):
            return jax.random.bernoulli(key, jax.nn.sigmoid(self.logits)[y])[..., None]

    params = gcf.ClassifierParams(jnp.log(jnp.array([0.3, 0.7])), Coin(jnp.array([1.0, -1.0])))
    x, y = jnp.array([[1], [0], [1]]), np.array([0, 1, 1])
    told = log_density(gcf.bayes.story(params), (x, y), {}, {})[0]
    scores = params.log_prior + params.conditional.log_prob(x)
    np.testing.assert_allclose(told, scores[jnp.arange(3), y].sum(), rtol=1e-12)
    drawn = Predictive(gcf.bayes.story(params), num_samples=2)(jax.random.key(0), num_rows=5)
    assert drawn["x"].shape == (2, 5, 1)


@pytest.mark.slow
def test_what_the_story_refuses():
    x, y = BY_NAME["gaussian"].example("float64")
    clf = gcf.lda(K)
    run = lambda program, *args: numpyro.handlers.seed(program, 0)(*args)  # noqa: E731
    with pytest.raises(ValueError, match=r"proper prior.*class 0.*NormalInverseWishart"):
        run(gcf.bayes.story(clf), x, y)
    proper = gcf.lda(K, prior=gcf.NormalInverseWishart())
    with pytest.raises(ValueError, match="give x, or statistics"):
        run(gcf.bayes.story(proper))
    with pytest.raises(ValueError, match=r"outside -1\.\.2"):
        run(gcf.bayes.story(proper), x, y + 1)
    with pytest.raises(ValueError, match="100 labels, for 101 rows"):
        run(gcf.bayes.story(proper), x, y[1:])
    with pytest.raises(ValueError, match="concentration of the prior is -1"):
        gcf.bayes.story(gcf.multinomial_nb(2, prior=gcf.Dirichlet(-1.0)))
    with pytest.raises(ValueError, match="y is traced"):
        jax.jit(lambda y: run(gcf.bayes.story(proper), x, y))(y)
    with pytest.raises(ValueError, match="give x"):
        run(gcf.bayes.story(gcf.SoftmaxRegression(K, l2=1.0)))
    with pytest.raises(ValueError, match=r"expected \(n,\) integer labels"):
        run(gcf.bayes.story(proper), x, np.eye(K)[y])
    params = gcf.fit(proper, x, y)
    with pytest.raises(ValueError, match="fitted to 5 features"):
        run(gcf.bayes.story(params), x[:, :1], y)
    bits = gcf.fit(gcf.bernoulli_nb(2), np.eye(2, dtype=int), np.arange(2))
    invalid = np.array([[0.5, 1.0]])
    assert np.isnan(log_density(gcf.bayes.story(bits), (invalid, np.zeros(1, int)), {}, {})[0])


def test_a_distribution_is_no_hyper_parameter_of_a_fit():
    clf = gcf.multinomial_nb(2, prior=gcf.Dirichlet(dist.Gamma(1.0, 1.0)))
    with pytest.raises(ValueError, match=r"only genclf\.bayes\.story takes distributions"):
        gcf.fit(clf, np.eye(2, dtype=int), np.arange(2))


@pytest.mark.slow
def test_posterior_predictive_simulation():
    model = BY_NAME["categorical"]
    clf, (x, y) = model.bayesian, model.example("float64")
    s = gcf.stats(clf, x, y)
    drawn = gcf.posterior(clf, s).sample(jax.random.key(0), (500,))
    tables = jnp.exp(drawn.conditional.log_theta).reshape(500, K, 5, 7)
    sites = {"class_prior": jnp.exp(drawn.log_prior), "theta": tables}
    told = Predictive(gcf.bayes.story(clf, s), posterior_samples=sites)(
        jax.random.key(1), num_rows=7
    )
    assert told["x"].shape == (500, 7, 5) and told["log_theta"].shape == (500, K, 35)
    # One draw of the predictive is one row of each draw of the parameters.
    fast, _ = gcf.sample(jax.random.key(2), gcf.predictive(clf, s), (4001,))
    for j in range(5):
        assert same_law(np.asarray(told["x"][:, 0, j]), np.asarray(fast[:, j])) > 1e-5


def test_what_marginalises_labels_is_named_where_it_is_not_installed(monkeypatch):
    x, y = BY_NAME["gaussian"].example("float64")
    params = gcf.fit(gcf.lda(K), x, y)
    monkeypatch.setitem(sys.modules, "funsor", None)
    with pytest.raises(ImportError, match=r"needs funsor: pip install .genclf\[bayes\]"):
        numpyro.handlers.seed(gcf.bayes.story(params), 0)(x, np.where(y == 0, -1, y))
