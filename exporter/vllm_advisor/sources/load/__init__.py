"""Load on an OpenAI-compatible endpoint, timed with the client's own clock."""
