-- SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
-- ranks that stand out from their job: modified z-score of the peak, at least 3.5, as report --by rank has it
WITH mid AS (SELECT job, quantile_disc(peak, 0.5) AS median FROM ranks GROUP BY job),
     spread AS (SELECT job, median, quantile_disc(abs(peak - median), 0.5) AS mad
                FROM ranks JOIN mid USING (job) GROUP BY job, median)
SELECT job, rank, host, peak, peak - median AS above_median,
       round((peak - median) / greatest(1.4826 * mad, 0.01 * median, 1), 1) AS score
FROM ranks JOIN spread USING (job)
WHERE abs(peak - median) >= 3.5 * greatest(1.4826 * mad, 0.01 * median, 1)
ORDER BY abs(score) DESC, job, rank;
