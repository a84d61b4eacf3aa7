"""anyshot: learn image classifiers from uneven, scarce and unusual data."""
