"""Discriminant analysis beyond scores: axes, tests, rankings of features, and many features."""
