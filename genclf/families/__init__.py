"""What p(x | y) can be: one file per family, each with the family and its params."""
