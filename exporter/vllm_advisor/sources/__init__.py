"""Outside bytes turned into observations; nothing here knows of advice."""
