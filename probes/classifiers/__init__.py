"""Image classifiers: images, networks, smoothing by noise, and Lipschitz bounds."""
