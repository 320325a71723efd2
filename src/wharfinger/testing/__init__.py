"""Public conformance kits: hold your own policy or engine to what the core relies on."""
