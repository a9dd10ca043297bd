#!/bin/sh
# The image's entrypoint. Spark on Kubernetes starts its pods with the word driver or executor, and passes the rest in
# variables, for which Spark's own images have a script like this one. Everything else are the words of a moneystate command.
set -eu

case "${1:-}" in
driver)
    shift
    exec "$SPARK_HOME/bin/spark-submit" --deploy-mode client \
        --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
        --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" "$@"
    ;;
executor)
    shift
    number=0
    while eval "[ -n \"\${SPARK_JAVA_OPT_$number+set}\" ]"; do
        eval "set -- \"\$@\" \"\$SPARK_JAVA_OPT_$number\""
        number=$((number + 1))
    done
    exec java "$@" -Xmx"$SPARK_EXECUTOR_MEMORY" \
        -cp "${SPARK_CONF_DIR:+$SPARK_CONF_DIR:}${HADOOP_CONF_DIR:+$HADOOP_CONF_DIR:}${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}$SPARK_HOME/jars/*" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" \
        --executor-id "$SPARK_EXECUTOR_ID" \
        --cores "$SPARK_EXECUTOR_CORES" \
        --app-id "$SPARK_APPLICATION_ID" \
        --hostname "$SPARK_EXECUTOR_POD_IP" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
        --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
*)
    exec moneystate "$@"
    ;;
esac
