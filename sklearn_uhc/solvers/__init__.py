"""Pure numerics: clean float arrays in, arrays out. No scikit-learn, no validation, no warnings."""
