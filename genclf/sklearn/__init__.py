"""Objects for scikit-learn and for libraries that take its estimators; needs `genclf[sklearn]`."""

from genclf.sklearn.searchlight import CrossValidatedScore as CrossValidatedScore

__all__ = ["CrossValidatedScore"]
