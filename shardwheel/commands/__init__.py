"""`shardctl`'s nouns and verbs, a module each. They wire edges to rooms; they decide nothing."""
