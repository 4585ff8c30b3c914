"""Raw files to rows."""
