"""Which model: error against the number of training examples."""
