"""Checks of arguments: domains of values and hyper-parameters, arrays and their sharding, texts."""
