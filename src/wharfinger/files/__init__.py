"""Tables, matrices and fitted recommenders in files; what they hold is pure and knows none."""
