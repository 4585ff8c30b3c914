"""`cuvee dedup` and `cuvee decontaminate` on files: the pipeline's own steps, and outputs in the files' own formats."""
