"""What every verb does with rows and models before it computes: checks, padding."""
