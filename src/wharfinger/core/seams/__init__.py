"""What the core asks of its plug-ins, and what they may answer: protocols and values."""
