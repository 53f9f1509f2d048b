# Two-step kernel ridge regression for those who know xnet: what docs/r.md shows, and checks of all of it in base R.
#
#   cd examples/r
#   RETICULATE_PYTHON=/path/to/python Rscript xnet_users.R [folder for the picture and the model]

source("dyadlearn.R")

folder <- commandArgs(TRUE)
folder <- if (length(folder) > 0) folder[1] else tempdir()
same <- function(answer, expected, tolerance = 1e-10) {
  stopifnot(identical(dimnames(answer), dimnames(expected)), max(abs(answer - expected)) < tolerance)
}

## ---- data
set.seed(1)
corolla <- setNames(runif(20, 10, 60), sprintf("plant_%02d", 1:20))  # mm
bill <- setNames(runif(9, 15, 50), paste0("bird_", LETTERS[1:9]))
expected <- 8 * exp(-(outer(corolla, bill, "-") / 12)^2)
visits <- matrix(rpois(length(expected), expected), 20,
                 dimnames = dimnames(expected))

similar <- function(a, b, width = 12) {
  exp(-0.5 * (outer(a, b, "-") / width)^2)
}
seen <- corolla[1:16]
new <- corolla[17:20]
seen_birds <- bill[1:7]
new_birds <- bill[8:9]
y <- log1p(visits[names(seen), names(seen_birds)])
k <- similar(seen, seen)
g <- similar(seen_birds, seen_birds)

## ---- fit
model <- dyad$TwoStepRidge(0.1, 0.01, kernel = "precomputed",
                           task_kernel = "precomputed",
                           fit_intercept = FALSE)
model <- model$fit(as_frame(k), as_frame(y), tasks = as_frame(g))
fitted <- as.matrix(model$predict())
print(round(fitted[1:3, 1:4], 2))

# Check: K (K + 0.1 I)^-1 Y (G + 0.01 I)^-1 G.
hat <- function(kernel, lambda) kernel %*% solve(kernel + lambda * diag(nrow(kernel)))
h_k <- hat(k, 0.1)
h_g <- hat(g, 0.01)
two_steps <- h_k %*% y %*% h_g
dimnames(two_steps) <- dimnames(y)
same(fitted, two_steps)

## ---- names
shuffled <- sample(names(seen))
again <- dyad$TwoStepRidge(0.1, 0.01, kernel = "precomputed", task_kernel = "precomputed",
                           fit_intercept = FALSE)
again <- again$fit(as_frame(k[shuffled, rev(shuffled)]), as_frame(y[sort(shuffled), ]),
                   tasks = as_frame(g))
same(as.matrix(again$predict())[names(seen), ], fitted)
wrong <- k
colnames(wrong)[3] <- "plant_99"
refused <- try(model$fit(as_frame(wrong), as_frame(y),
                         tasks = as_frame(g)), silent = TRUE)
cat(strwrap(sub("\n.*", "", conditionMessage(attr(refused, "condition"))), 77), sep = "\n")
same(as.matrix(model$predict()), fitted)  # a fit that is refused leaves the model as it was

## ---- loo
loo <- function(model, exclusion) as.matrix(model$holdout(exclusion))
losses <- sapply(c("interaction", "row", "column", "both"),
                 function(what) mean((y - loo(model, what))^2))
print(round(losses, 3))

# Check: rows, columns and both by fitting without them, single interactions by the value that confirms itself.
held_out <- lapply(c(A = "interaction", B = "row", C = "column", D = "both"), loo, model = model)
refitted <- list(A = 0 * y, B = 0 * y, C = 0 * y, D = 0 * y)
predict_from <- function(i, j, rows, columns) {
  first <- k[i, rows, drop = FALSE] %*% solve(k[rows, rows] + 0.1 * diag(length(rows)), y[rows, columns])
  first %*% solve(g[columns, columns] + 0.01 * diag(length(columns)), g[columns, j])
}
for (i in seq_len(nrow(y))) for (j in seq_len(ncol(y))) {
  rows <- setdiff(seq_len(nrow(y)), i)
  columns <- setdiff(seq_len(ncol(y)), j)
  refitted$B[i, j] <- predict_from(i, j, rows, seq_len(ncol(y)))
  refitted$C[i, j] <- predict_from(i, j, seq_len(nrow(y)), columns)
  refitted$D[i, j] <- predict_from(i, j, rows, columns)
  changed <- y
  changed[i, j] <- held_out$A[i, j]
  refitted$A[i, j] <- (h_k %*% changed %*% h_g)[i, j]
}
for (setting in names(held_out)) same(held_out[[setting]], refitted[[setting]])
leverage <- outer(diag(h_k), diag(h_g))
same(held_out$A, (fitted - leverage * y) / (1 - leverage))

## ---- tune
search <- dyad$TwoStepRidgeCV(10^(-4:2), 10^(-4:2), setting = "row",
                              kernel = "precomputed",
                              task_kernel = "precomputed",
                              fit_intercept = FALSE)
search <- search$fit(as_frame(k), as_frame(y), tasks = as_frame(g))
cat("lambda", search$alpha_, search$task_alpha_,
    "loss", round(-search$best_score_, 4), "\n")

# Check: the loss of every pair of lambdas, the row left out by its leverage.
grid <- outer(10^(-4:2), 10^(-4:2), Vectorize(function(a, b) {
  h <- hat(k, a)
  out <- diag(1 / (1 - diag(h))) %*% (h - diag(diag(h)))
  mean((y - out %*% y %*% hat(g, b))^2)
}))
stopifnot(max(abs(-search$landscape_ - grid)) < 1e-10)

## ---- predict
k_new <- similar(new, seen)
g_new <- similar(new_birds, seen_birds)
predicted <- search$predict(as_frame(k_new), tasks = as_frame(g_new))
print(round(as.matrix(predicted), 2))

# Check: new rows, new columns and both.
weights <- solve(k + search$alpha_ * diag(nrow(k)), y) %*% solve(g + search$task_alpha_ * diag(nrow(g)))
same(as.matrix(search$predict(as_frame(k_new), tasks = as_frame(g_new))), k_new %*% weights %*% t(g_new))
same(as.matrix(search$predict(as_frame(k_new))), k_new %*% weights %*% g)
same(as.matrix(search$predict(tasks = as_frame(g_new))), k %*% weights %*% t(g_new))

## ---- permtest
test <- dyad$permutation_test(model, "row", n_permutations = 199L,
                              random_state = 0L)
cat("loss", round(-test$score, 3), "null", round(mean(-test$null), 3),
    "p", test$p_value, "\n")
stopifnot(abs(-test$score - losses[["row"]]) < 1e-10)

## ---- impute
holes <- y
holes[cbind(1:16, rep(1:7, length.out = 16))] <- NA
impute <- dyad$TwoStepRidge(0.1, 0.01, kernel = "precomputed",
                            task_kernel = "precomputed",
                            fit_intercept = FALSE)
impute <- impute$fit(as_frame(k), as_frame(holes), tasks = as_frame(g))
filled <- as.matrix(impute$completed_)
cat("holes", sum(is.na(holes)), "filled", sum(is.finite(filled[is.na(holes)])), "\n")

# Check: what is filled in confirms itself.
same(filled[!is.na(holes)], holes[!is.na(holes)])
same(filled[is.na(holes)], (h_k %*% filled %*% h_g)[is.na(holes)])

## ---- network
edges <- outer(1:16, 1:16, function(i, j) cos(i * j))
dimnames(edges) <- dimnames(k)
network <- dyad$TwoStepRidge(0.1, 0.1, kernel = "precomputed",
                             symmetry = "symmetric",
                             fit_intercept = FALSE)
network <- network$fit(as_frame(k), as_frame(edges))
without_vertices <- as.matrix(network$holdout("vertices"))

# Check: both plants taken out of both sides.
for (i in 1:15) for (j in (i + 1):16) {
  rest <- setdiff(1:16, c(i, j))
  inverse <- solve(k[rest, rest] + 0.1 * diag(14))
  stopifnot(abs(k[i, rest] %*% inverse %*% edges[rest, rest] %*% inverse %*% k[rest, j] - without_vertices[i, j]) < 1e-10)
}

## ---- heatmap
png(file.path(folder, "visits.png"), width = 640, height = 640, res = 110)
heatmap(held_out$B, Rowv = as.dendrogram(hclust(as.dist(1 - k))),
        Colv = as.dendrogram(hclust(as.dist(1 - g))),
        scale = "none", margins = c(6, 6))
invisible(dev.off())

## ---- file
path <- file.path(folder, "visits.dyad")
dyad$save(search, path)
loaded <- dyad$load(path)
stopifnot(identical(as.matrix(loaded$predict(as_frame(k_new))), as.matrix(search$predict(as_frame(k_new)))))

cat("all checks in base R passed\n")
