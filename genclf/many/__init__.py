"""Many fits of one model: to many data sets, to many neighbourhoods of features.

The reasons are in docs/design/many.md.
"""
