"""Files: `packed` texts and arrays, `tables` in them, `embeddings` by id, `hdf5_texts`, and `atomic` replacement.

The one reader and the one writer of tables, for the command line, the data sets and streams.
"""
