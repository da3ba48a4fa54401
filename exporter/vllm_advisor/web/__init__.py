"""What the daemon serves: metrics, JSON API and status page."""
