{ split($4, when, ":"); bytes[when[2] " " $9] += $10; seen[$7]++ }
END { for (k in bytes) total += bytes[k]; for (p in seen) pages++; print total, pages }
