#!/bin/sh
# Links the files of HIVE_CUSTOM_CONF_DIR into the configuration, makes or upgrades the schema in the database of the kind DB_DRIVER unless
# IS_RESUME is true, and becomes the metastore. The variables are those of the entrypoint of `apache/hive:4.0.0`.
set -eu
if [ "${SERVICE_NAME:-}" != metastore ]; then
  echo "this image is the metastore only: SERVICE_NAME=metastore" >&2
  exit 1
fi
if [ -d "${HIVE_CUSTOM_CONF_DIR:-}" ]; then
  find "$HIVE_CUSTOM_CONF_DIR" -type f -exec ln -sfn {} /opt/hive/conf/ \;
fi
export METASTORE_HOME=/opt/hive METASTORE_CONF_DIR=/opt/hive/conf
opens="--add-opens=java.base/java.lang=ALL-UNNAMED --add-opens=java.base/java.util=ALL-UNNAMED --add-opens=java.base/java.net=ALL-UNNAMED"
# The archive has no class for asynchronous logs.
logs="-Dlog4j.configurationFile=metastore-log4j2.properties -Dmetastore.async.log.enabled=false"
options="-Xmx1g ${SERVICE_OPTS:-} -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData $opens $logs"
class_path="conf:classes:lib/*:/opt/hadoop/share/hadoop/common/*:${HADOOP_CLASSPATH:-}"
if [ "${IS_RESUME:-false}" = false ]; then
  # shellcheck disable=SC2086
  java $options -cp "$class_path" org.apache.hadoop.hive.metastore.tools.schematool.MetastoreSchemaTool \
    -dbType "${DB_DRIVER:-derby}" -initOrUpgradeSchema
fi
# shellcheck disable=SC2086
exec java $options -cp "$class_path" org.apache.hadoop.hive.metastore.HiveMetaStore
