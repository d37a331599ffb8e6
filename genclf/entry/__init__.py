"""Checks and padding of arguments, which every public function does first."""
