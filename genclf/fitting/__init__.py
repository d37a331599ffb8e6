"""Fits: in closed form, by EM where something is not observed, and of p(y | x) alone."""
