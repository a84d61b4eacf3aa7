"""Image sets that are part of the package: drawn glyphs and handwritten digits."""
