"""The manager's API over HTTP."""
