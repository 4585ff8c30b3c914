"""How documents that are alike are found, and who stays."""
