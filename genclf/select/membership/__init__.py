"""Does a row belong to a class at all: distances, p-values, sets of classes."""
