"""One Spark job on generated data: K-Means (MLlib), PageRank (RDDs) or SGD for a logistic model (RDDs, treeAggregate).

Jobs recur as they do in a cluster: the same size each time, the data by the seed. `--scale` makes another size of it.
"""

import argparse
from typing import Any

import numpy as np
from pyspark.ml.clustering import KMeans
from pyspark.ml.linalg import Vectors
from pyspark.sql import SparkSession

PARTITIONS = 12


def kmeans(spark: SparkSession, scale: float, seed: int) -> float:
    """Clusters in 30 dimensions; many small tasks, centres sent anew for each iteration."""
    dimensions, k, rows = 30, 12, int(16_000 * scale)

    def points(part: int) -> list[tuple[object]]:
        own = np.random.default_rng([seed, part])
        centres = np.random.default_rng(seed).standard_normal((k, dimensions))
        chosen = centres[own.integers(0, k, rows // PARTITIONS)]
        return [(Vectors.dense(row),) for row in chosen + own.standard_normal(chosen.shape)]

    frame = spark.createDataFrame(
        spark.sparkContext.parallelize(range(PARTITIONS), PARTITIONS).flatMap(points), ["features"]
    )
    frame = frame.repartition(PARTITIONS).cache()
    model = KMeans(k=k, maxIter=40, seed=seed, tol=0.0).fit(frame)
    return float(model.summary.trainingCost)


def pagerank(spark: SparkSession, scale: float, seed: int) -> float:
    """Ranks of a graph whose in-degrees follow a power law; a join and a shuffle an iteration."""
    pages, links = int(20_000 * scale), 8

    def edges(part: int) -> list[tuple[int, int]]:
        own = np.random.default_rng([seed, part])
        sources = np.repeat(np.arange(part, pages, PARTITIONS), links)
        targets = np.minimum((own.pareto(0.8, len(sources)) * 10).astype(int), pages - 1)
        return list(zip(sources.tolist(), targets.tolist(), strict=True))

    context = spark.sparkContext
    graph = (
        context.parallelize(range(PARTITIONS), PARTITIONS)
        .flatMap(edges)
        .distinct(PARTITIONS)
        .groupByKey(PARTITIONS)
        .cache()
    )
    ranks = graph.mapValues(lambda _: 1.0)
    for _ in range(8):
        given = graph.join(ranks, PARTITIONS).flatMap(
            lambda each: [(to, each[1][1] / len(each[1][0])) for to in each[1][0]]
        )
        ranks = given.reduceByKey(lambda a, b: a + b, PARTITIONS).mapValues(lambda rank: 0.15 + 0.85 * rank)
    return float(ranks.values().sum())


def sgd(spark: SparkSession, scale: float, seed: int) -> float:
    """A logistic model by mini-batches: a broadcast of weights and an aggregate of gradients a step."""
    dimensions, rows = int(60_000 * scale), 40
    context = spark.sparkContext

    def batch(part: int) -> list[tuple[np.ndarray, np.ndarray]]:
        own = np.random.default_rng([seed, part])
        x = own.standard_normal((rows, dimensions)).astype(np.float32)
        return [(x, (x[:, :10].sum(axis=1) > 0).astype(np.float32))]

    data = context.parallelize(range(PARTITIONS), PARTITIONS).flatMap(batch).cache()
    weights = np.zeros(dimensions, np.float32)
    for step in range(40):
        sent = context.broadcast(weights)

        def gradient(total: Any, part: Any, sent: Any = sent, step: int = step) -> Any:
            own = np.random.default_rng([seed, step])
            chosen = own.random(len(part[1])) < 0.3
            x, y = part[0][chosen], part[1][chosen]
            return total + x.T @ (1 / (1 + np.exp(-(x @ sent.value))) - y)

        found = data.treeAggregate(np.zeros(dimensions, np.float32), gradient, lambda a, b: a + b)
        weights = (weights - 0.5 / (1 + step) * found / (rows * PARTITIONS * 0.3)).astype(np.float32)
        sent.destroy()
    return float(np.abs(weights).sum())


def main() -> None:
    """Runs the job."""
    parse = argparse.ArgumentParser(description=__doc__)
    parse.add_argument("--master", required=True)
    parse.add_argument("--job", choices=["kmeans", "pagerank", "sgd"], required=True)
    parse.add_argument("--seed", type=int, required=True)
    parse.add_argument("--scale", type=float, default=1.0)
    options = parse.parse_args()
    spark = (
        SparkSession.builder.master(options.master)
        .appName(options.job)
        .config("spark.executor.memory", "500m")
        .config("spark.driver.memory", "600m")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", str(PARTITIONS))
        .config("spark.default.parallelism", str(PARTITIONS))
        .getOrCreate()
    )
    job = {"kmeans": kmeans, "pagerank": pagerank, "sgd": sgd}[options.job]
    print(options.job, job(spark, options.scale, options.seed))
    spark.stop()


if __name__ == "__main__":
    main()
