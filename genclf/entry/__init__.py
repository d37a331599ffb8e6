"""What every verb does with its arguments: their domains, shapes, padding and placement."""
