"""Places features of cameras and LiDAR points on a grid seen from above."""
