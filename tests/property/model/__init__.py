"""The index of one namespace, said once more in plain dicts: the calls answer what the index answers.

Where the scripts count (interest, bytes) the model looks who is interested; where they take a chunk of something that
has no order, the model is told which one the server took. All else of an answer, and of what it leaves, is the same.

Failures stay for good: the server forgets one a job lease after it, and whoever waited was told within that.
"""
