"""From one recipe file, many raw text datasets become a pre-training mixture that can be trusted."""
