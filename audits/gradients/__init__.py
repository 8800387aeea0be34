"""Is this training signal the gradient: where, when, and what does it save?"""
