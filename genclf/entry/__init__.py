"""Checks and padding of arguments, the first step of every public function."""
