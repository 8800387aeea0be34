"""Speech: manifests and corpora, recordings, encoders and their layers, alignments, words and phones."""
