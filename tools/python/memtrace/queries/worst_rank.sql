-- SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
-- the ten ranks with the highest peaks, against the median of their job
SELECT job, rank, host, peak, peak - median(peak) OVER (PARTITION BY job) AS above_median,
       round(100.0 * peak / max(peak) OVER (PARTITION BY job), 1) AS percent_of_highest, state, recording
FROM ranks
ORDER BY peak DESC, job, rank
LIMIT 10;
