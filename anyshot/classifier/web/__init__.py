"""The local page of ``anyshot serve``: classes and photos in memory, a classifier for each visitor.

| module | content |
|---|---|
| ``limits`` | limits of sizes, counts and times; the error of a refused request |
| ``uploads`` | an uploaded file becomes a thumbnail and the classifier's input |
| ``state`` | the classifier's answers about classes and photos, as JSON |
| ``workspace`` | the classes and photos of one visitor, and how they change |
| ``sessions`` | the workspaces of all visitors |
| ``request_guard`` | refuses requests that other sites forge |
| ``app`` | the HTTP interface |
| ``server`` | the socket and the server process |
| ``static/`` | the page: plain HTML, CSS and JavaScript |

Nothing is written to disk. This package may import ``core``, ``data`` and ``classifier``.
"""
