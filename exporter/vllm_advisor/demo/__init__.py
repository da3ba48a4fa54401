"""A simulated vLLM engine, so that the daemon can be seen at work with nothing else installed."""
