"""The one room that imports numpyro: a model as its program."""
