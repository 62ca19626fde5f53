-- SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
-- what the peaks were made of: each category's lowest, median and highest rank, and which rank that is
SELECT category, min(at_peak) AS lowest, quantile_disc(at_peak, 0.5) AS median, max(at_peak) AS highest,
       arg_max(rank, at_peak) AS highest_rank, arg_max(job, at_peak) AS job, sum(at_peak) AS all_ranks
FROM categories
GROUP BY category
HAVING max(at_peak) > 0
ORDER BY all_ranks DESC;
