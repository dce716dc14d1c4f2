#!/bin/sh
# Becomes the metastore, with the hive-site.xml of the folder that HIVE_CUSTOM_CONF_DIR names. The schema is made at the first start.
set -eu
cd /opt/hive
mkdir -p site
cp "${HIVE_CUSTOM_CONF_DIR:-/hive_custom_conf}/hive-site.xml" site/
opens="--add-opens=java.base/java.lang=ALL-UNNAMED --add-opens=java.base/java.util=ALL-UNNAMED --add-opens=java.base/java.net=ALL-UNNAMED"
# shellcheck disable=SC2086
exec java ${SERVICE_OPTS:--Xmx384m} -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData $opens \
  -Dderby.stream.error.file=/opt/hive/derby.log -Ddatanucleus.schema.autoCreateAll=true \
  -Ddatanucleus.connectionPoolingType=HikariCP -Dhive.async.log.enabled=false \
  -cp "site:conf:classes:lib/*" MetastoreServer 9083 every-interface
