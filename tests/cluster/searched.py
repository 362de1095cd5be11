"""A program for YARN: searches a pipeline with a Keras model, saves the best one on HDFS; or loads it and predicts.

spark-submit searched.py settings.yaml search
spark-submit searched.py settings.yaml predict
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.evaluation import RegressionEvaluator
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from sparktf import Cluster
from sparktf.ml import KerasEstimator


def build(params: dict[str, Any], assets: dict[str, Any]) -> Any:
    """Returns a linear model; executors get the function, for they have no module of this name."""
    import keras  # the driver has no other use for TensorFlow

    x = keras.Input((params["num_features"],), name="features")
    model = keras.Model(x, keras.layers.Dense(1, name="label")(x))
    model.compile(keras.optimizers.SGD(params["rate"]), "mse")
    return model


def numbers(spark: SparkSession) -> DataFrame:
    """Returns rows whose label is 2 a - b + 1."""
    a, b = ((f.col("id") * prime % 41 / 20 - 1).cast("double") for prime in (7, 13))
    return spark.range(200, numPartitions=2).select("id", a.alias("a"), b.alias("b"), (2 * a - b + 1).alias("label"))


def search(spark: SparkSession, settings: dict[str, Any]) -> list[float]:
    """Searches, saves the best pipeline, and returns the errors of each candidate, the worse rate's first."""
    estimator = KerasEstimator(
        model=build, epochs=3, batchSize=10, outputPath=settings["runs"], config={"cluster": settings["cluster"]}
    )
    assembler = VectorAssembler(inputCols=["a", "b"], outputCol="features")
    rates = [{"rate": rate} for rate in (0.0001, 0.1)]
    with Cluster(spark) as cluster:
        searched = CrossValidator(
            estimator=Pipeline(stages=[assembler, estimator.on(cluster)]),
            estimatorParamMaps=ParamGridBuilder().addGrid(estimator.modelParams, rates).build(),
            evaluator=RegressionEvaluator(metricName="mse"),
            numFolds=2,
            seed=1,
        ).fit(numbers(spark))
    best = searched.bestModel
    assert isinstance(best, PipelineModel)
    best.write().overwrite().save(settings["saved"])
    return list(searched.avgMetrics)


def predict(spark: SparkSession, settings: dict[str, Any]) -> list[list[float]]:
    """Returns labels and what the saved pipeline predicts."""
    scored = PipelineModel.load(settings["saved"]).transform(numbers(spark))
    return [list(row) for row in scored.orderBy("id").select("label", "prediction").collect()]


def main(file: str, *steps: str) -> None:
    """Prints what each step returns, after its name."""
    settings = yaml.safe_load(Path(file).read_text())
    spark = SparkSession.builder.getOrCreate()
    for step in steps:
        print(step, json.dumps({"search": search, "predict": predict}[step](spark, settings)))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
