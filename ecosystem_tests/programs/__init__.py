"""Small programs, each with one library, that write the records of a topic in capitals to another.

The tests start them as ``python FILE BOOTSTRAP SOURCE TARGET NAME``, in the environment of
``requirements.txt``, where kwire isn't. NAME is the program's own: its group, its state.
"""
