#!/usr/bin/env bash
# What a container of the image does: an executor, a driver in cluster mode, or any command.
set -euo pipefail

# Java finds no user whose id has no name, and some clusters choose an id for each namespace. The image lets its group,
# which such users are in, write the file.
if ! getent passwd "$(id -u)" >/dev/null; then
	echo "${SPARK_USER_NAME:-spark}:x:$(id -u):$(id -g)::${HOME:-/tmp}:/bin/false" >>/etc/passwd
fi

role=${1:-}
case $role in
executor)
	options=()
	for ((number = 0; ; number++)); do
		name=SPARK_JAVA_OPT_$number
		[[ -v $name ]] || break
		options+=("${!name}")
	done
	exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" "${options[@]}" "-Xmx$SPARK_EXECUTOR_MEMORY" \
		-cp "${SPARK_CONF_DIR:+$SPARK_CONF_DIR:}$SPARK_HOME/jars/*${SPARK_EXTRA_CLASSPATH:+:$SPARK_EXTRA_CLASSPATH}" \
		org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
		--driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
		--app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
		--resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
	;;
driver)
	shift
	exec "$SPARK_HOME/bin/spark-submit" --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
		--deploy-mode client "$@"
	;;
*)
	exec "$@"
	;;
esac
