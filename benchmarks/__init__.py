"""Times of the library relative to scikit-learn, and other measurements: `make bench`."""
