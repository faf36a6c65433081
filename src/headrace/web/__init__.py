"""Pages for people, served on loopback with a token: what they click and type is kept by the floors below."""
