"""Model selection: calibration, and error against the number of training examples."""
