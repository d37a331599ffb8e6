"""Families made of families: products, independent columns, mixtures."""
