"""Writes in C++ what an OpDef declares: its fields, its ports, and its rules of shapes, followed on symbols."""
