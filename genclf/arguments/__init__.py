"""Checks of arguments: domains of values, hyper-parameters, arrays and their sharding, texts."""
