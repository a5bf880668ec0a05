"""Quantizes for --precision int8 and fp8: Q/DQ nodes around a network's layers, calibrated by nvidia-modelopt."""
