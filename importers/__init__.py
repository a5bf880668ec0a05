"""What trtsmith knows of operators: definitions, spellings, references. Imports neither converter nor TensorRT."""
