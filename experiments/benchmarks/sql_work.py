"""Compute the means of six metrics from Parquet files by DuckDB's SQL, with or without the checks of lists.

``python sql_work.py FOLDER MEMORY THREADS [--checks]`` reads lists.parquet (user, item, rank) and truth.parquet (user,
item, rating) of the folder, and prints the means as JSON. They are over the users with truth, whose ratings are all
above 0. Each statement is the fastest of several that mean the same; one of them needs ranks below 127.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

METRICS = ("ndcg@10", "recall@10", "precision@10", "ap@100", "rr", "hit@10")
MEANS = """
WITH best AS (
    SELECT user, count(*) AS relevant, sum(rating / log2(place + 1)) FILTER (place <= 10) AS ideal
    FROM (
        SELECT user, rating, row_number() OVER (PARTITION BY user ORDER BY rating DESC) AS place
        FROM 'truth.parquet'
    )
    GROUP BY user
),
hits AS (
    SELECT l.user, l.rank, t.rating, row_number() OVER (PARTITION BY l.user ORDER BY l.rank) AS number
    FROM 'lists.parquet' AS l JOIN 'truth.parquet' AS t ON l.user = t.user AND l.item = t.item
),
reached AS (
    SELECT
        user,
        sum(rating / log2(rank + 1)) FILTER (rank <= 10) AS gain,
        count(*) FILTER (rank <= 10) AS hits_10,
        sum(number / rank) FILTER (rank <= 100) AS precisions,
        min(rank) AS first_hit
    FROM hits
    GROUP BY user
)
SELECT
    avg(coalesce(gain, 0) / ideal),
    avg(coalesce(hits_10, 0) / relevant),
    avg(coalesce(hits_10, 0) / 10),
    avg(coalesce(precisions, 0) / least(relevant, 100)),
    avg(coalesce(1 / first_hit, 0)),
    avg((coalesce(hits_10, 0) > 0)::INT)
FROM best LEFT JOIN reached USING (user)
"""
# Each returns a row for every user who breaks a rule.
CHECKS = {
    "ranks must be 1, 2, 3 and so on": """
SELECT user FROM 'lists.parquet' GROUP BY user
HAVING min(rank) <> 1 OR max(rank) <> count(*) OR bit_count(bit_or(1::HUGEINT << rank::INT)) <> count(*)
""",
    "a list has an item twice": """
SELECT user FROM 'lists.parquet' GROUP BY user, item HAVING count(*) > 1
""",
    "a truth has an item twice": """
SELECT user FROM 'truth.parquet' GROUP BY user, item HAVING count(*) > 1
""",
}


def main() -> None:
    """Print the means."""
    import duckdb

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("memory")
    parser.add_argument("threads", type=int)
    parser.add_argument("--checks", action="store_true")
    args = parser.parse_args()
    os.chdir(args.folder)
    connection = duckdb.connect()
    connection.execute(f"SET memory_limit = '{args.memory}'; SET threads = {args.threads}")
    connection.execute("SET preserve_insertion_order = false; SET temp_directory = 'spilled'")
    for rule, check in CHECKS.items() if args.checks else ():
        if users := connection.execute(f"{check} LIMIT 1").fetchall():
            raise ValueError(f"{rule}: user {users[0][0]}")
    means = connection.execute(MEANS).fetchone()
    print(json.dumps(dict(zip(METRICS, means, strict=True))))


if __name__ == "__main__":
    main()
