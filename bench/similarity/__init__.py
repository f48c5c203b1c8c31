"""Measure the similarity from which two lessons are the same, on lessons in other words."""
