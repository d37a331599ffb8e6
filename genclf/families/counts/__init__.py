"""Densities of counts, words, categories and bits."""
