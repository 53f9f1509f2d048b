"""Features by id in files, of which only the rows that are asked for are read.

`opened` is what all formats have in common; `arrays`, files of numpy; `containers`, archives of many arrays (npz,
HDF5); `frames`, tables of columns (parquet); `formats` tells them apart.
"""
