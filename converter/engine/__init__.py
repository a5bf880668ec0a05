"""TensorRT itself: building engines, running them, and the files around them."""
