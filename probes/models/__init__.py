"""Trained models as they come from outside: checkpoints, Hugging Face folders, programs, known architectures."""
