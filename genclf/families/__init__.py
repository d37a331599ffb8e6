"""Families of class densities p(x | y), and the params of the densities that they fit."""
