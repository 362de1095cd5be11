#!/usr/bin/env bash
# What an image of Spark's starts in a pod, with this machine's Spark: an executor, or a driver in cluster mode.
set -euo pipefail
role=$1
shift
case $role in
executor)
	options=()
	for ((number = 0; ; number++)); do
		name=SPARK_JAVA_OPT_$number
		[[ -v $name ]] || break
		options+=("${!name}")
	done
	"${JAVA_HOME:+$JAVA_HOME/bin/}java" "${options[@]}" "-Xmx$SPARK_EXECUTOR_MEMORY" \
		-cp "${SPARK_CONF_DIR:-/none}:$SPARK_HOME/jars/*" \
		org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
		--driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
		--app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
		--resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
	;;
driver)
	"$SPARK_HOME/bin/spark-submit" --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" --deploy-mode client "$@"
	;;
esac
