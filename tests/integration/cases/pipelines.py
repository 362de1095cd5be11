"""Pipelines of Spark ML with a Keras model among their stages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.evaluation import BinaryClassificationEvaluator, RegressionEvaluator
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from sparktf.errors import ConfigError
from sparktf.ml import KerasEstimator, KerasModel

if TYPE_CHECKING:
    import keras  # in models alone: who drives a search needs no TensorFlow


def linear(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
    """Returns a model of one number."""
    import keras

    x = keras.Input((params["num_features"],), name="features")
    model = keras.Model(x, keras.layers.Dense(1, name="label")(x))
    model.compile(keras.optimizers.SGD(params.get("rate", 0.1)), "mse")
    return model


def chance(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
    """Returns a model of the chance of the second class."""
    import keras

    x = keras.Input((params["num_features"],), name="features")
    model = keras.Model(x, keras.layers.Dense(1, "sigmoid", name="label")(x))
    model.compile(keras.optimizers.Adam(0.1), "binary_crossentropy")
    return model


def of_rows(spark: SparkSession, lake: str) -> DataFrame:
    """Returns the rows with what is predicted."""
    return spark.read.parquet(lake).select("id", "a", "b", f.col("y").cast("double").alias("label"))


def reservations(spark: SparkSession) -> int:
    """Returns how often this application has reserved nodes: a job of Spark's each time."""
    return len(states_of(spark, "sparktf-agents-"))


def states_of(spark: SparkSession, group: str) -> list[str]:
    """Returns the states of the jobs of this application whose group's name begins so."""
    found: Any = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    jobs = [found.apply(i) for i in range(found.size())]
    named = [job for job in jobs if job.jobGroup().isDefined()]
    return [str(job.status()) for job in named if job.jobGroup().get().startswith(group)]


def regression(spark: SparkSession, lake: str, folder: str) -> DataFrame:
    """Fits a pipeline, saves it over all that it has been, and returns what the last of it predicts, once loaded.

    That is the folder that the run of its model lies in, which its stage alone is refused, and its own files.
    """
    rate = 0.1

    def build(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
        return linear({**params, "rate": rate}, assets)

    rows = of_rows(spark, lake).withColumn("held", f.col("id") % 10 == 0)
    assembler = VectorAssembler(inputCols=["a", "b"], outputCol="features")
    estimator = KerasEstimator(model=build, epochs=4, batchSize=50, validationIndicatorCol="held", outputPath=folder)
    fitted = Pipeline(stages=[assembler, estimator]).fit(rows)
    stage = fitted.stages[1]
    assert isinstance(stage, KerasModel)
    try:
        stage.write().overwrite().save(folder)
    except ConfigError as error:
        assert "the model's own files" in str(error)
    else:
        raise AssertionError("the stage alone was saved over its run")
    first = predictions(fitted, rows)
    # Spark deletes what is there before any stage is asked.
    fitted.write().overwrite().save(folder)
    assert predictions(fitted, rows) == first
    fitted.write().overwrite().save(folder)
    loaded = PipelineModel.load(folder)
    stage = loaded.stages[1]
    assert isinstance(stage, KerasModel)
    assert stage.uid == estimator.uid
    # Over the very files that it was loaded from, and its stage over its own.
    loaded.write().overwrite().save(folder)
    alone = stage.path.removesuffix("/model")
    stage.write().overwrite().save(alone)
    assert KerasModel.load(alone).uid == stage.uid
    last = PipelineModel.load(folder)
    assert predictions(last, rows) == first
    return last.transform(rows).select("id", "label", "prediction")


def predictions(model: PipelineModel, rows: DataFrame) -> dict[int, float]:
    """Returns what a model predicts for each id."""
    return {row.id: row.prediction for row in model.transform(rows).collect()}


def classification(spark: SparkSession, lake: str) -> DataFrame:
    """Fits a classifier on columns that are packed, and returns its columns beside the area under its curve."""
    rows = of_rows(spark, lake).withColumn("label", (f.col("label") > 1).cast("double"))
    estimator = KerasEstimator(
        model="cases.pipelines:chance",
        inputCols=["a", "b"],
        epochs=6,
        batchSize=50,
        probabilityCol="probability",
        rawPredictionCol="rawPrediction",
    )
    scored = estimator.fit(rows).transform(rows)
    area = BinaryClassificationEvaluator().evaluate(scored)
    second = f.udf(lambda vector: float(vector[1]), "double")("probability")
    return scored.select("id", "label", "prediction", second.alias("chance"), f.lit(area).alias("area"))


def validation(spark: SparkSession, lake: str) -> DataFrame:
    """Cross-validates two learning rates; returns predictions, the error of each, and how often nodes were reserved."""
    rows, before = of_rows(spark, lake), reservations(spark)
    estimator = KerasEstimator(model="cases.pipelines:linear", inputCols=["a", "b"], epochs=2, batchSize=50)
    grid = ParamGridBuilder().addGrid(estimator.modelParams, [{"rate": 0.0001}, {"rate": 0.1}]).build()
    searched = CrossValidator(
        estimator=estimator, estimatorParamMaps=grid, evaluator=RegressionEvaluator(), numFolds=2, seed=1
    ).fit(rows)
    worse, better = searched.avgMetrics
    assert isinstance(searched.bestModel, KerasModel)
    assert Path(searched.bestModel.path).exists()
    told = [f.lit(value) for value in (worse, better, reservations(spark) - before)]
    return searched.transform(rows.limit(5)).select("prediction", *told)
