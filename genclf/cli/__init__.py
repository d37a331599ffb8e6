"""The commands of `python -m genclf`, which need the extra `cli`; not part of the public API."""
