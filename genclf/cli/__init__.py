"""What `python -m genclf` runs; needs the extra `cli`. Nothing here is part of the public API."""
