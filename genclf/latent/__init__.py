"""What is not seen: labels, components and cells, by expectation-maximisation."""
