-- SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
-- steps by how far the highest rank lies above the median one
WITH numbered AS (SELECT *, row_number() OVER (PARTITION BY job, rank, recording ORDER BY ns) AS step FROM steps)
SELECT job, step, count(*) AS ranks, quantile_disc(peak, 0.5) AS median, max(peak) AS highest,
       arg_max(rank, peak) AS highest_rank, round(100.0 * (max(peak) - median) / greatest(median, 1), 1) AS percent_above
FROM numbered
GROUP BY job, step
ORDER BY percent_above DESC, job, step
LIMIT 10;
