"""The local page: classes and pictures of several visitors in memory, a classifier for each, served on this computer.

limits.py      how much of everything
photos.py      an upload becomes a thumbnail and what the classifier takes; nothing is written to disk
answers.py     what the classifier says of classes and pictures
workspace.py   a visitor's classes and pictures, and how they change
visitors.py    whose workspace is whose; how many, and for how long
guard.py       requests that other sites forge are refused
app.py         addresses and answers
server.py      `anyshot serve`
static/        the page itself: plain HTML, CSS and JavaScript
"""
