"""The supervisor that runs inside every box. Standard library of Python 3.9 only, and of that what loads in no time.

It is started as a directory or an archive, `python3 -I -S inside serve …` (`__main__`), is the first process of the
box's pid namespace, and speaks the protocol of `wire`. It keeps order; it is no boundary: whoever is outside trusts
nothing that it says. What holds when it is killed: the box has ended, with everything in it.
"""
