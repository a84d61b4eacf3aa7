"""Image sets that come with the package: drawn glyphs and handwritten digits."""
