"""What is done about workloads that run: one file per adaptation."""
