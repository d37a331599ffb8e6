"""The library beside scikit-learn, in the same run: `make bench`."""
