"""The estimate by gradient ascent and by Lagrange multipliers; certificate, standard errors."""
