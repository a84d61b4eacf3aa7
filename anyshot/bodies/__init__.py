"""The bodies by name: what turns images into features, each a function of the image size that gives a ``Body``."""
