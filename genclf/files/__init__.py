"""Files of params, models, statistics and estimators, and params of the estimators of others."""
