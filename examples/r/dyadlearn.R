# dyadlearn from R: source("dyadlearn.R").
#
# Needs reticulate 1.38 or newer, the first that knows numpy 2, and a Python with dyadlearn and pandas, which the
# environment variable RETICULATE_PYTHON names.

library(reticulate)

dyad <- import("dyadlearn")
pandas <- import("pandas", convert = FALSE)

# Returns a matrix as a pandas frame with its row and column names as ids. A matrix by itself would lose its names on the
# way to Python, and a data.frame those of its rows that are whole numbers.
as_frame <- function(x) {
  x <- as.matrix(x)
  if (is.null(rownames(x)) || is.null(colnames(x)))
    stop("x needs row names and column names, which are the ids: ",
         "set dimnames(x).")
  # An NA among integers would arrive as -2147483648.
  storage.mode(x) <- "double"
  pandas$DataFrame(unname(x), index = as.list(rownames(x)),
                   columns = as.list(colnames(x)))
}
