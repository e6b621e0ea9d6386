"""Pure mathematics on matrices: norms, singular values, ranks."""
