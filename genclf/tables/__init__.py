"""Tables of numbers, categories and texts: how columns are read, and which models apply.

docs/design/tables.md explains the design decisions.
"""
