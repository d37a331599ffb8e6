"""Other roads to the estimate: gradient ascent, Lagrange multipliers, a certificate."""
