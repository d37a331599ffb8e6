"""Sufficient statistics: what they are, how rows become them, how they add up."""
