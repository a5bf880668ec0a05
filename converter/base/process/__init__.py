"""Process utilities: the package's folders, signals during foreign code, temporary files of killed processes."""
