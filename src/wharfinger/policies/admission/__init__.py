"""What may come in, and in which order it is served: one file per admission."""
