"""Generative models: sets of points, diffusion and other generators, private training, membership attacks."""
