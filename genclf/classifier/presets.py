"""The familiar models: each a one-line composition with its conventional hyper-parameters."""

from __future__ import annotations

from genclf.arguments.calls import checked_call
from genclf.arguments.domains import Whole, whole_number
from genclf.classifier.classifier import Classifier, Inference
from genclf.covariance.shrinkage import Method
from genclf.families.base import Scalar
from genclf.families.conjugate.beta import Beta
from genclf.families.conjugate.dirichlet import Dirichlet
from genclf.families.conjugate.normal_inverse_wishart import NormalInverseWishart
from genclf.families.conjugate.two_covariance import TwoCovariance
from genclf.families.counts.bernoulli import Bernoulli
from genclf.families.counts.categorical import Categorical
from genclf.families.counts.multinomial import Multinomial
from genclf.families.gaussian.gaussian import Gaussian
from genclf.families.missing import Missing


@checked_call
def lda(
    num_classes: Whole,
    *,
    ridge: Scalar = 0.0,
    shrinkage: Scalar | Method | None = None,
    class_alpha: Scalar = 0.0,
    prior: NormalInverseWishart | TwoCovariance | None = None,
    inference: Inference = "map",
    missing: Missing = "error",
) -> Classifier:
    """Linear discriminant analysis: Gaussian classes with one shared covariance.

    `Classifier(Gaussian(shared=True, ridge=ridge), num_classes, class_alpha)`; maximum
    likelihood (divisor n) by default.

    Args:
        num_classes: K.
        ridge: relative ridge; see `Gaussian`.
        shrinkage: from 0 to 1 towards the identity, "ledoit-wolf" or "oas", instead of a ridge;
            `Gaussian` has the diagonal target too.
        class_alpha: smoothing of the class prior; see `Classifier`.
        prior: a `NormalInverseWishart` prior, instead of either; see `Gaussian`.
        inference: "ml", "map" or "predictive"; see `Classifier`.
        missing: "error" or "marginalize"; see the family.

    Example:
        >>> import genclf as gcf
        >>> vowel = gcf.datasets.load_vowel()
        >>> params = gcf.fit(gcf.lda(11), vowel.x_train, vowel.y_train)
        >>> print((gcf.predict(params, vowel.x_test) != vowel.y_test).sum())
        257

    References:
        Hastie, Tibshirani & Friedman (2009), §4.3.
    """
    family = Gaussian(shared=True, ridge=ridge, shrinkage=shrinkage, prior=prior, missing=missing)
    return Classifier(family, num_classes, class_alpha, inference=inference)


@checked_call
def qda(
    num_classes: Whole,
    *,
    ridge: Scalar = 0.0,
    shrinkage: Scalar | Method | None = None,
    class_alpha: Scalar = 0.0,
    prior: NormalInverseWishart | TwoCovariance | None = None,
    inference: Inference = "map",
    missing: Missing = "error",
) -> Classifier:
    """Quadratic discriminant analysis: Gaussian classes, each with its own covariance.

    `Classifier(Gaussian(ridge=ridge), num_classes, class_alpha)`; maximum likelihood (divisor
    n_k) by default.

    Args:
        num_classes: K.
        ridge: relative ridge; see `Gaussian`.
        shrinkage: from 0 to 1 towards the identity, "ledoit-wolf" or "oas", instead of a ridge;
            `Gaussian` has the diagonal target too.
        class_alpha: smoothing of the class prior; see `Classifier`.
        prior: a `NormalInverseWishart` prior, instead of either; see `Gaussian`.
        inference: "ml", "map" or "predictive"; see `Classifier`.
        missing: "error" or "marginalize"; see the family.

    Example:
        >>> import genclf as gcf
        >>> vowel = gcf.datasets.load_vowel()
        >>> params = gcf.fit(gcf.qda(11), vowel.x_train, vowel.y_train)
        >>> print((gcf.predict(params, vowel.x_test) != vowel.y_test).sum())
        244

    References:
        Hastie, Tibshirani & Friedman (2009), §4.3.
    """
    family = Gaussian(ridge=ridge, shrinkage=shrinkage, prior=prior, missing=missing)
    return Classifier(family, num_classes, class_alpha, inference=inference)


@checked_call
def rda(
    num_classes: Whole,
    *,
    pooling: Scalar,
    shrinkage: Scalar,
    class_alpha: Scalar = 0.0,
    missing: Missing = "error",
) -> Classifier:
    """Regularised discriminant analysis: from QDA to LDA, and from both to nearest centroids.

    `Classifier(Gaussian(pooling=pooling, shrinkage=shrinkage), num_classes, class_alpha)`, with
    covariances `(1 - γ) M_k + γ tr(M_k) / d · I` with `M_k = (1 - λ) Σ_k + λ Σ`.

    Args:
        num_classes: K.
        pooling: λ from 0 (QDA) to 1 (LDA); see `Gaussian`.
        shrinkage: γ from 0 to 1 (spheres); see `Gaussian`.
        class_alpha: smoothing of the class prior; see `Classifier`.
        missing: "error" or "marginalize"; see the family.

    Example:
        >>> import genclf as gcf
        >>> vowel = gcf.datasets.load_vowel()
        >>> clf = gcf.rda(11, pooling=0.09, shrinkage=0.0)
        >>> params = gcf.fit(clf, vowel.x_train, vowel.y_train)
        >>> print((gcf.predict(params, vowel.x_test) != vowel.y_test).sum())
        207

    References:
        Friedman (1989), "Regularized discriminant analysis", which weighs scatters where this
        weighs covariances; Hastie, Tibshirani & Friedman (2009), §4.3.1.
    """
    family = Gaussian(pooling=pooling, shrinkage=shrinkage, missing=missing)
    return Classifier(family, num_classes, class_alpha)


@checked_call
def nearest_shrunken_centroids(
    num_classes: Whole, *, soft_threshold: Scalar, class_alpha: Scalar = 0.0
) -> Classifier:
    """Nearest shrunken centroids: by a soft threshold, class means differ in few features.

    `Classifier(Gaussian("diag", shared=True, ddof=K, soft_threshold=soft_threshold), num_classes,
    class_alpha)`; variances with divisor n - K. `threshold_path` gives a whole path of them.

    Args:
        num_classes: K.
        soft_threshold: Δ >= 0; see `Gaussian`.
        class_alpha: smoothing of the class prior; see `Classifier`.

    Example:
        >>> import genclf as gcf
        >>> vowel = gcf.datasets.load_vowel()
        >>> clf = gcf.nearest_shrunken_centroids(11, soft_threshold=2.0)
        >>> params = gcf.fit(clf, vowel.x_train, vowel.y_train)
        >>> print((gcf.predict(params, vowel.x_test) != vowel.y_test).mean().round(4))
        0.5931

    References:
        Tibshirani, Hastie, Narasimhan & Chu (2002), "Diagnosis of multiple cancer types by shrunken
        centroids of gene expression"; Hastie, Tibshirani & Friedman (2009), §18.2.
    """
    ddof = float(whole_number(num_classes, "num_classes", 1))
    family = Gaussian(covariance="diag", shared=True, ddof=ddof, soft_threshold=soft_threshold)
    return Classifier(family, num_classes, class_alpha)


@checked_call
def gaussian_nb(
    num_classes: Whole,
    *,
    ridge: Scalar = 0.0,
    class_alpha: Scalar = 0.0,
    prior: NormalInverseWishart | TwoCovariance | None = None,
    inference: Inference = "map",
    missing: Missing = "error",
) -> Classifier:
    """Gaussian naive Bayes: Gaussian classes, each with its own diagonal covariance.

    `Classifier(Gaussian(covariance="diag", ridge=ridge), num_classes, class_alpha)`; maximum
    likelihood (divisor n_k) by default.

    Args:
        num_classes: K.
        ridge: relative ridge; see `Gaussian`.
        class_alpha: smoothing of the class prior; see `Classifier`.
        prior: a `NormalInverseWishart` prior, instead of ridge; see `Gaussian`.
        inference: "ml", "map" or "predictive"; see `Classifier`.
        missing: "error" or "marginalize"; see the family.

    Example:
        >>> import genclf as gcf
        >>> vowel = gcf.datasets.load_vowel()
        >>> params = gcf.fit(gcf.gaussian_nb(11), vowel.x_train, vowel.y_train)
        >>> print((gcf.predict(params, vowel.x_test) != vowel.y_test).mean().round(4))
        0.539
    """
    family = Gaussian(covariance="diag", ridge=ridge, prior=prior, missing=missing)
    return Classifier(family, num_classes, class_alpha, inference=inference)


@checked_call
def bernoulli_nb(
    num_classes: Whole,
    *,
    alpha: Scalar = 1.0,
    class_alpha: Scalar = 0.0,
    prior: Beta | None = None,
    inference: Inference = "map",
    missing: Missing = "error",
) -> Classifier:
    """Bernoulli naive Bayes for 0/1 features, where absence is evidence too.

    `Classifier(Bernoulli(alpha=alpha), num_classes, class_alpha)`.

    Args:
        num_classes: K.
        alpha: Dirichlet smoothing, 1 is Laplace's; see `Bernoulli`.
        class_alpha: smoothing of the class prior; see `Classifier`.
        prior: a `Beta` prior of the probabilities, instead of alpha; see `Bernoulli`.
        inference: "ml", "map" or "predictive"; see `Classifier`.
        missing: "error" or "marginalize"; see the family.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> params = gcf.fit(gcf.bernoulli_nb(2), jnp.array([[1, 0], [0, 1]]), jnp.array([0, 1]))
        >>> print(gcf.predict(params, jnp.array([[1, 0], [0, 1]])))
        [0 1]
    """
    family = Bernoulli(alpha=alpha, prior=prior, missing=missing)
    return Classifier(family, num_classes, class_alpha, inference=inference)


@checked_call
def multinomial_nb(
    num_classes: Whole,
    *,
    alpha: Scalar = 1.0,
    class_alpha: Scalar = 0.0,
    prior: Dirichlet | None = None,
    inference: Inference = "map",
    missing: Missing = "error",
) -> Classifier:
    """Multinomial naive Bayes for word counts or token sequences.

    `Classifier(Multinomial(alpha=alpha), num_classes, class_alpha)`.

    Args:
        num_classes: K.
        alpha: Dirichlet smoothing, 1 is Laplace's; see `Multinomial`.
        class_alpha: smoothing of the class prior; see `Classifier`.
        prior: a `Dirichlet` prior of the probabilities, instead of alpha; see `Multinomial`.
        inference: "ml", "map" or "predictive"; see `Classifier`.
        missing: "error" or "marginalize"; see the family.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> params = gcf.fit(gcf.multinomial_nb(2), jnp.array([[3, 0], [0, 2]]), jnp.array([0, 1]))
        >>> print(gcf.predict(params, jnp.array([[1, 0], [1, 4]])))
        [0 1]
    """
    family = Multinomial(alpha=alpha, prior=prior, missing=missing)
    return Classifier(family, num_classes, class_alpha, inference=inference)


@checked_call
def categorical_nb(
    num_classes: Whole,
    num_values: int | tuple[int, ...],
    *,
    alpha: Scalar = 1.0,
    class_alpha: Scalar = 0.0,
    prior: Dirichlet | None = None,
    inference: Inference = "map",
    missing: Missing = "error",
) -> Classifier:
    """Categorical naive Bayes for columns of codes.

    `Classifier(Categorical(num_values, alpha=alpha), num_classes, class_alpha)`.

    Args:
        num_classes: K.
        num_values: number of values of each column, or one number for all.
        alpha: Dirichlet smoothing, 1 is Laplace's; see `Categorical`.
        class_alpha: smoothing of the class prior; see `Classifier`.
        prior: a `Dirichlet` prior of the probabilities, instead of alpha; see `Categorical`.
        inference: "ml", "map" or "predictive"; see `Classifier`.
        missing: "error" or "marginalize"; see the family.

    Example:
        >>> import genclf as gcf
        >>> votes = gcf.datasets.load_house_votes()
        >>> params = gcf.fit(gcf.categorical_nb(2, 3), votes.x, votes.y)
        >>> print((gcf.predict(params, votes.x) != votes.y).sum())
        42
    """
    family = Categorical(num_values, alpha=alpha, prior=prior, missing=missing)
    return Classifier(family, num_classes, class_alpha, inference=inference)
