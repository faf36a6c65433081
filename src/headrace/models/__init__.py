"""What a model says of itself: its attention, its weights, its context, from the files and servers that describe it."""
