"""The embedded model: finding its weights, fetching them, and running llama.cpp's own server over them as a child."""
