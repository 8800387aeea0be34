"""How models, recordings and tables come in: everything a user hands over is read, checked and named here."""
