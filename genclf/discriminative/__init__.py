"""p(y | x) alone: softmax regression, and the likelihood that it maximises."""
