"""Files of params, models, statistics and estimators; params from estimators of scikit-learn."""
