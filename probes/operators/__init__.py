"""Neural operators: fields on grids, layers in Fourier space, spectra and resampling."""
