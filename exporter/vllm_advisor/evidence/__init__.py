"""What was observed, rolling and bounded in memory."""
