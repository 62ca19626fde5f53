-- SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
-- ranks that no recording has, by job, and those that ended badly
WITH worlds AS (SELECT job, max(world_size) AS world FROM ranks GROUP BY job),
     wanted AS (SELECT job, unnest(generate_series(0, world - 1)) AS rank FROM worlds)
SELECT job, rank, 'in no recording' AS what FROM wanted ANTI JOIN ranks USING (job, rank)
UNION ALL
SELECT job, rank, state FROM ranks WHERE state LIKE 'signal%' OR (state LIKE 'exited%' AND state <> 'exited 0')
ORDER BY job, rank;
