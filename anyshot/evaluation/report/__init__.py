"""Numbers for people: tables on the screen, CSV and JSON on disk, and figures."""
