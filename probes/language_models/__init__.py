"""Language models of several languages: corpora, tokenizers, training and held-out losses."""
