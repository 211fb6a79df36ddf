"""The command line of the reproduction: one file a group of verbs, thin over what they run."""
