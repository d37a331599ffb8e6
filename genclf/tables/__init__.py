"""Tables of numbers, categories and texts: how columns are read, and which models apply."""
