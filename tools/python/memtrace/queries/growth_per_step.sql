-- SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
-- bytes that each rank's peak of a step grows by, a step, over its last half of steps; the fastest first
WITH late AS (SELECT *, row_number() OVER (PARTITION BY job, rank, recording ORDER BY ns) AS n,
                     count(*) OVER (PARTITION BY job, rank, recording) AS steps FROM steps)
SELECT job, rank, round(regr_slope(peak, n), 1) AS bytes_a_step, round(regr_r2(peak, n), 3) AS r2, max(steps) AS steps,
       min(peak) AS lowest, max(peak) AS highest
FROM late
WHERE n > steps / 2
GROUP BY job, rank, recording
HAVING count(*) >= 3
ORDER BY bytes_a_step DESC, job, rank
LIMIT 10;
