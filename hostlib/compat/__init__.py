"""Real programs' own suites and loads, bare and under libqclimb.so, compared result by result: `make compat`.

`programs` lists them, one small file each; `bed` runs one; `outcome` compares; `__main__` is the command. A tool of the
checkout, like `bench/`: it is not installed.
"""
