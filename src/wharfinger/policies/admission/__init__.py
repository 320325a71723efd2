"""Who may come in, and in which order they are served: one file per admission."""
