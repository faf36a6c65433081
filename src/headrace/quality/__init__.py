"""Whether answers are right: scores against what was expected, samples for people to review, and how answers drift."""
