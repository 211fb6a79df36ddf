# Values computed by R: binomial tails and limits, Holm adjustment, Wilson interval.
#
# Run: Rscript tests/references/make_r.R
# Writes r.json beside this file.  Numbers are decimal strings with 17 significant
# digits; R works in double precision, so expect agreement to about 1e-12, relative.
# binom.test computes alpha as 1 - conf.level, which costs some digits at small alpha;
# the "qbeta" rows give the same limits without that loss.
# p.adjust adjusts p-values; prop.test without continuity correction is the Wilson
# interval, here at the confidence level that belongs to z = 1.959964.

options(digits = 17, scipen = 20)

arguments <- commandArgs(trailingOnly = FALSE)
script <- sub("^--file=", "", grep("^--file=", arguments, value = TRUE))
target <- file.path(dirname(normalizePath(script)), "r.json")

num <- function(x) sprintf("\"%s\"", sprintf("%.17g", x + 0)) # + 0 turns -0 into 0
nums <- function(x) sprintf("[%s]", paste(sapply(x, num), collapse = ", "))
text <- function(x) sprintf("\"%s\"", x)
texts <- function(x) sprintf("[%s]", paste(sapply(x, text), collapse = ", "))
row <- function(...) {
  parts <- list(...)
  fields <- paste0("\"", names(parts), "\": ", unlist(parts), collapse = ", ")
  paste0("    {", fields, "}")
}

rows <- character(0)

tests <- list(
  list(1, 1, "0.05"), list(2, 1, "0.5"), list(10, 3, "0.05"), list(10, 0, "0.05"),
  list(50, 50, "0.01"), list(50, 25, "0.001"), list(200, 190, "0.025"),
  list(250, 249, "0.05"), list(250, 246, "0.001"), list(1000, 999, "0.05"),
  list(1000, 500, "0.01"), list(5000, 2173, "0.025"), list(5000, 154, "0.0125"),
  list(5000, 118, "0.025"), list(100000, 50000, "0.05")
)
for (t in tests) {
  n <- t[[1]]; k <- t[[2]]; alpha <- as.numeric(t[[3]])
  low <- binom.test(k, n, alternative = "greater", conf.level = 1 - alpha)$conf.int[1]
  high <- binom.test(k, n, alternative = "less", conf.level = 1 - alpha)$conf.int[2]
  for (side in c("lower_limit", "upper_limit")) {
    value <- if (side == "lower_limit") low else high
    rows <- c(rows, row(kind = text(side), "function" = text("binom.test"),
      n = n, k = k, alpha = text(t[[3]]), value = num(value)))
  }
}

betas <- list(
  list(1, 1, "1e-12"), list(10, 9, "1e-6"), list(50, 25, "1e-12"),
  list(200, 1, "1e-9"), list(1000, 500, "1e-12"), list(5000, 118, "1e-4"),
  list(100000, 1, "1e-12"), list(100000, 99999, "1e-6")
)
for (t in betas) {
  n <- t[[1]]; k <- t[[2]]; alpha <- as.numeric(t[[3]])
  low <- if (k == 0) 0 else qbeta(alpha, k, n - k + 1)
  high <- if (k == n) 1 else qbeta(alpha, k + 1, n - k, lower.tail = FALSE)
  for (side in c("lower_limit", "upper_limit")) {
    value <- if (side == "lower_limit") low else high
    rows <- c(rows, row(kind = text(side), "function" = text("qbeta"),
      n = n, k = k, alpha = text(t[[3]]), value = num(value)))
  }
}

tails <- list(
  list(1, 0, "0.5"), list(10, 3, "0.3"), list(50, 10, "0.5"), list(200, 3, "0.05"),
  list(250, 245, "0.99"), list(1000, 0, "0.9"), list(1000, 10, "0.7"),
  list(1000, 400, "0.5"), list(1000, 900, "0.5"), list(1000, 999, "0.29"),
  list(5000, 154, "0.02"), list(5000, 2173, "0.5"), list(100000, 30000, "0.5"),
  list(100000, 60000, "0.3"), list(100000, 99990, "0.9999")
)
for (t in tails) {
  n <- t[[1]]; k <- t[[2]]; p <- as.numeric(t[[3]])
  low <- pbinom(k, n, p, log.p = TRUE)
  high <- pbinom(k - 1, n, p, lower.tail = FALSE, log.p = TRUE)
  for (side in c("log_lower_tail", "log_upper_tail")) {
    value <- if (side == "log_lower_tail") low else high
    rows <- c(rows, row(kind = text(side), "function" = text("pbinom"),
      n = n, k = k, p = text(t[[3]]), value = num(value)))
  }
}

vectors <- list(
  c("0.05"), c("0.01", "0.04", "0.03"), c("0.02", "0.02", "0.02", "0.02"),
  c("0", "0.5", "1", "0.001"), c("0.9", "0.8", "0.7"), c("0.001", "0.02", "0.011", "0.3"),
  c("1e-12", "1e-300", "0.05", "0.0125", "0.0125", "0.2"),
  c("0.0049", "0.0051", "0.006", "0.0065", "0.008", "0.012", "0.02", "0.04", "0.6", "1")
)
for (p in vectors) {
  value <- p.adjust(as.numeric(p), method = "holm")
  rows <- c(rows, row(kind = text("holm_adjusted"), "function" = text("p.adjust"),
    p = texts(p), value = nums(value)))
}

level <- 1 - 2 * pnorm(-1.959964)
for (t in list(c(2173, 5000), c(154, 5000), c(118, 5000), c(3, 10), c(246, 250))) {
  limits <- suppressWarnings(
    prop.test(t[1], t[2], conf.level = level, correct = FALSE)$conf.int
  )
  for (i in 1:2) {
    rows <- c(rows, row(kind = text(c("wilson_lower", "wilson_upper")[i]),
      "function" = text("prop.test"), k = t[1], n = t[2], z = text("1.959964"),
      value = num(limits[i])))
  }
}

writeLines(c(
  "{",
  sprintf("  \"source\": \"R %s.%s\",", R.version$major, R.version$minor),
  "  \"command\": \"Rscript tests/references/make_r.R\",",
  "  \"rows\": [",
  paste(rows, collapse = ",\n"),
  "  ]",
  "}"
), target)
