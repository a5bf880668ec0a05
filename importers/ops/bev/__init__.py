"""Lays features of cameras and of LiDAR points out on a grid seen from above."""
