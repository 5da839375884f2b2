"""How things are written: C++, Python, text for people, and the files themselves."""
