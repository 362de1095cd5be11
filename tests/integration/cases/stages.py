"""What Spark ML's pipelines ask of a Keras model besides: weights, held-out rows, classes, several inputs, searches."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.evaluation import (
    BinaryClassificationEvaluator,
    MulticlassClassificationEvaluator,
    RegressionEvaluator,
)
from pyspark.ml.feature import IndexToString, StringIndexer, VectorAssembler
from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder, TrainValidationSplit, TrainValidationSplitModel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import BooleanType, DoubleType, LongType, StructField, StructType

from sparktf import Cluster
from sparktf.errors import SparkTFError
from sparktf.ml import KerasClassifier, KerasEstimator, KerasRegressor
from sparktf.ml.estimator import ParamMap

from .pipelines import of_rows, reservations, states_of

if TYPE_CHECKING:
    import keras  # in models alone: who drives a search needs no TensorFlow

ROWS = 90


def plain(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
    """Returns a linear model that begins with zeros, of a vector or of a number and the rest of the vector."""
    import keras

    if "rest" in params:
        inputs = {"first": keras.Input((), name="first"), "rest": keras.Input((params["rest"],), name="rest")}
        x = keras.layers.Concatenate()([keras.layers.Reshape((1,))(inputs["first"]), inputs["rest"]])
    else:
        inputs = {"features": keras.Input((params["num_features"],), name="features")}
        x = inputs["features"]
    model = keras.Model(inputs, keras.layers.Dense(1, kernel_initializer="zeros", name="label")(x))
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model


def classes(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
    """Returns a model of the classes that the labels have."""
    import keras

    x = keras.Input((params["num_features"],), name="features")
    model = keras.Model(x, keras.layers.Dense(params["num_classes"], "softmax", name="label")(x))
    model.compile(keras.optimizers.Adam(params["rate"]), "sparse_categorical_crossentropy")
    return model


def logit(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
    """Returns a model of two classes, whose output is the second one's logit."""
    import keras

    x = keras.Input((params["num_features"],), name="features")
    model = keras.Model(x, keras.layers.Dense(1, name="label")(x))
    model.compile(keras.optimizers.Adam(0.1), keras.losses.BinaryCrossentropy(from_logits=True))
    return model


def weighted_rows(spark: SparkSession) -> DataFrame:
    """Returns rows with weights, some to be held out, whose vectors are dense and sparse in turn."""
    draw = np.random.default_rng(3)
    x = draw.normal(size=(ROWS, 3)) * (draw.random((ROWS, 3)) < 0.7)
    labels = x @ [2.0, -1.0, 0.5] + 1 + draw.normal(size=ROWS)
    weights, held = draw.integers(0, 4, ROWS), draw.random(ROWS) < 0.3
    rows = []
    for i, row in enumerate(x.tolist()):
        vector = Vectors.sparse(3, dict(enumerate(row))) if i % 2 else Vectors.dense(row)
        whole = (float(labels[i]), float(weights[i]), bool(held[i]))
        rows.append((i, vector, row[0], Vectors.dense(row[1:]), *whole))
    types = [LongType(), VectorUDT(), DoubleType(), VectorUDT(), DoubleType(), DoubleType(), BooleanType()]
    names = ["id", "all of it", "first", "rest", "label", "weight", "held out"]
    return spark.createDataFrame(rows, StructType([StructField(*field) for field in zip(names, types, strict=True)]))


def weighted(spark: SparkSession) -> DataFrame:
    """Fits all rows as one update; returns them with predictions, the losses of training, and what refusals say."""
    rows = weighted_rows(spark)
    estimator = KerasEstimator(
        model="cases.stages:plain",
        featuresCol="all of it",
        weightCol="weight",
        validationIndicatorCol="held out",
        epochs=4,
        batchSize=ROWS,
    )
    inputs = {"first": "first", "rest": {"columns": "rest", "shape": [2]}}
    with Cluster(spark) as cluster:
        model = estimator.on(cluster).fit(rows)
        maps: ParamMap = {estimator.inputs: inputs, estimator.modelParams: {"rest": 2}}
        [of_two] = estimator.fit(rows, [{**maps, estimator.predictionCol: "of two"}])
    assert model.uid == of_two.uid == estimator.uid
    assert (estimator.getPredictionCol(), of_two.getPredictionCol()) == ("prediction", "of two")
    assert model.result is not None
    history = model.result.history
    scored = model.transform(of_two.transform(rows))
    # As Spark's own models do: a map of the estimator's Params is one of the model's, and columns may have moved.
    moved = scored.withColumnRenamed("all of it", "moved").withColumn("all of it", f.lit("not this one"))
    scored = model.transform(moved, {estimator.featuresCol: "moved", estimator.predictionCol: "again"})
    said = [
        refusal(lambda: model.transform(model.transform(rows))),
        refusal(lambda: model.copy({model.inputCols: ["first", "label"]}).transform(rows)),
        refusal(lambda: estimator.fit(rows, {estimator.labelCol: "lable"})),
        refusal(lambda: estimator.fit(rows, {estimator.weightCol: "w"})),
        refusal(lambda: estimator.fit(rows, {estimator.featuresCol: "features"})),
        refusal(lambda: KerasEstimator().fit(rows)),
    ]
    told = [history["loss"], history["val_loss"], said]
    return scored.select(
        vector_to_array(f.col("moved")),
        "label",
        "weight",
        "held out",
        "prediction",
        "of two",
        "again",
        *(f.array(*map(f.lit, values)) for values in told),
    )


def searched(spark: SparkSession, lake: str, folder: str) -> DataFrame:
    """Searches a learning rate on nodes that a cluster holds; returns what the best pipeline predicts, once loaded."""
    kind = f.when(f.col("label") > 2, "high").when(f.col("label") < 0, "low").otherwise("middle")
    rows = of_rows(spark, lake).withColumn("kind", kind).drop("label")
    before = reservations(spark)
    with Cluster(spark) as cluster:
        estimator = KerasClassifier(model="cases.stages:classes", epochs=4, batchSize=50).on(cluster)
        assembler = VectorAssembler(inputCols=["a", "b"], outputCol="features")
        pipeline = Pipeline(stages=[StringIndexer(inputCol="kind", outputCol="label"), assembler, estimator])
        rates = [{"rate": rate} for rate in (0.00001, 0.1)]
        search = TrainValidationSplit(
            estimator=pipeline,
            estimatorParamMaps=ParamGridBuilder().addGrid(estimator.modelParams, rates).build(),
            evaluator=MulticlassClassificationEvaluator(metricName="accuracy"),
            seed=1,
            parallelism=2,
            collectSubModels=True,
        )
        search.write().save(f"{folder}/search")
        # What is loaded of an estimator knows of no cluster; its Params, and those of the search, are the same.
        again = TrainValidationSplit.load(f"{folder}/search")
        assert again.getEstimatorParamMaps() == search.getEstimatorParamMaps()
        stage = stages_of(again.getEstimator())[2]
        assert isinstance(stage, KerasClassifier)
        assert (stage.uid, stage.extractParamMap()) == (estimator.uid, estimator.extractParamMap())
        best = search.fit(rows)
    fitted = best.bestModel
    assert isinstance(fitted, PipelineModel)
    check_predictor(stages_of(fitted)[2], fitted.transform(rows))
    best.write().save(f"{folder}/searched")
    loaded = TrainValidationSplitModel.load(f"{folder}/searched")
    assert loaded.validationMetrics == best.validationMetrics
    assert [stages_of(model)[2].uid for model in loaded.subModels or []] == [estimator.uid] * 2
    assert isinstance(loaded.bestModel, PipelineModel) and not stages_of(loaded.bestModel)[2].hasSummary
    worse, better = best.validationMetrics
    scored = loaded.transform(rows)
    names = IndexToString(inputCol="prediction", outputCol="named", labels=stages_of(fitted)[0].labels)
    vectors = [vector_to_array(f.col(name)) for name in ("probability", "rawPrediction")]
    return names.transform(scored).select(
        "label",
        "prediction",
        *vectors,
        *map(f.lit, (worse, better, reservations(spark) - before)),
        (f.col("named") == f.col("kind")).cast("double"),
    )


MADE = ["rawPrediction", "probability", "prediction"]


def check_predictor(model: Any, scored: DataFrame) -> None:
    """Checks a model against one of Spark's own, side by side: columns, types, attributes, evaluators, single rows."""
    rows = scored.drop(*MADE).cache()
    expected = LogisticRegression(maxIter=5).fit(rows)
    beside = expected.transform(rows)
    assert scored.columns == beside.columns
    # With their types, their attributes for machine learning, and whether they are nullable.
    assert scored.schema.fields[-3:] == beside.schema.fields[-3:]
    assert (model.numClasses, model.numFeatures) == (expected.numClasses, expected.numFeatures)
    kept = scored.cache()
    metrics: list[Any] = ["accuracy", "logLoss"]  # its stubs do not know the latter
    for metric in metrics:
        evaluator = MulticlassClassificationEvaluator(metricName=metric)
        ours, theirs = evaluator.evaluate(kept), evaluator.evaluate(beside)
        assert abs(ours - theirs) < 0.6, metric
    row = kept.head()
    assert row is not None
    context = rows.sparkSession.sparkContext
    context.setJobGroup("single rows", "no job")
    np.testing.assert_allclose(model.predictProbability(row.features), row.probability, rtol=1e-5)
    np.testing.assert_allclose(model.predictRaw(row.features), row.rawPrediction, rtol=1e-4, atol=1e-5)
    assert model.predict(row.features) == row.prediction
    assert not context.statusTracker().getJobIdsForGroup("single rows")
    context.setJobGroup("", "")
    assert "takes vectors of 2 features" in refusal(lambda: model.predict([1.0, 2.0, 3.0]))
    summary = model.summary
    assert model.hasSummary and summary.totalIterations == len(summary.objectiveHistory) == 4
    assert summary.objectiveHistory == list(model.result.history["loss"])
    # A class whose threshold is 0 is predicted for all rows.
    thresholds = [1.0] * (model.numClasses - 1) + [0.0]
    favoured = model.copy({model.thresholds: thresholds}).transform(rows).select("prediction").collect()
    assert {row.prediction for row in favoured} == {model.numClasses - 1}
    few = refusal(lambda: model.copy({model.thresholds: [0.5]}).transform(rows))
    assert few == f"ConfigError: thresholds has 1 values, and there are {model.numClasses} classes: give one of each"
    kept.unpersist()
    rows.unpersist()


def of_two(spark: SparkSession, lake: str) -> DataFrame:
    """Checks a model of one logit against Spark's own; returns accuracy and areas, and the refusal of three classes."""
    y = f.col("label")
    rows = VectorAssembler(inputCols=["a", "b"], outputCol="features").transform(of_rows(spark, lake)).coalesce(2)
    estimator = KerasClassifier(model="cases.stages:logit", epochs=4, batchSize=50)
    with Cluster(spark) as cluster:
        two = rows.withColumn("label", (y > 1).cast("int"))
        model = estimator.on(cluster).fit(two)
        three = rows.withColumn("label", (y > 0).cast("int") + (y > 2).cast("int"))
        said = refusal(lambda: estimator.fit(three, {estimator.epochs: 1}))
    scored = model.transform(two).cache()
    check_predictor(model, scored)
    accuracy = MulticlassClassificationEvaluator(metricName="accuracy").evaluate(scored)
    area = BinaryClassificationEvaluator()
    areas = [area.evaluate(scored), area.evaluate(scored, {area.rawPredictionCol: "probability"})]
    return spark.createDataFrame([(accuracy, *areas, said)], "accuracy double, raw double, chance double, said string")


def stages_of(pipeline: object) -> list[Any]:
    """Returns the stages of a pipeline, fitted or not."""
    if isinstance(pipeline, Pipeline):
        return list(pipeline.getStages())
    assert isinstance(pipeline, PipelineModel)
    return list(pipeline.stages)


def interrupted(spark: SparkSession, lake: str) -> DataFrame:
    """Cancels all jobs, as Ctrl-C in a search does, while a thread fits; returns what that says, and fits anew."""
    rows = of_rows(spark, lake)
    estimator = KerasEstimator(model="cases.stages:plain", inputCols=["a", "b"], batchSize=50)
    fed_before = states_of(spark, "sparktf-feeders-").count("SUCCEEDED")
    with Cluster(spark) as cluster, ThreadPoolExecutor(1) as pool:
        fitting = pool.submit(estimator.on(cluster).fit, rows, {estimator.epochs: 100_000})
        while fed_before == states_of(spark, "sparktf-feeders-").count("SUCCEEDED") and not fitting.done():
            time.sleep(0.05)
        spark.sparkContext.cancelAllJobs()
        said = refusal(lambda: fitting.result(timeout=60))
        model = estimator.fit(rows)
    assert model.result is not None
    return spark.createDataFrame([(said, model.result.rows_trained)], "said string, trained long")


def kept(spark: SparkSession, lake: str, folder: str) -> DataFrame:
    """Cross-validates a pipeline with two workers, saves the best one and returns what it predicts.

    The search has its rows in one partition: each executor that scores loads TensorFlow, and each model of the search.
    """
    estimator = KerasRegressor(
        model="cases.stages:plain", numWorkers=2, epochs=2, batchSize=50, outputPath=f"{folder}/runs"
    )
    assembler, rows = VectorAssembler(inputCols=["a", "b"], outputCol="features"), of_rows(spark, lake)
    with Cluster(spark) as cluster:
        searched = CrossValidator(
            estimator=Pipeline(stages=[assembler, estimator.on(cluster)]),
            estimatorParamMaps=ParamGridBuilder().addGrid(estimator.epochs, [2]).build(),
            evaluator=RegressionEvaluator(metricName="mse"),
            numFolds=2,
            seed=1,
        ).fit(rows.coalesce(1))
    best = searched.bestModel
    assert isinstance(best, PipelineModel)
    best.write().save(f"{folder}/saved")
    [workers] = {attempt.workers for attempt in stages_of(best)[1].result.attempts}
    return best.transform(rows).select("id", "prediction", *map(f.lit, (workers, *searched.avgMetrics)))


def refusal(call: Callable[[], object]) -> str:
    """Returns what a call that must be refused says."""
    try:
        call()
    except SparkTFError as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError("it was not refused")
