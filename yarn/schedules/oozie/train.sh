#!/bin/sh
# What the workflow runs, as train.sh CONFIG DATE: nightly.sh, whose exit code it prints as the property that Oozie captures,
# for Oozie knows no exit code but 0. All else goes to the launcher's log: no more than 2 KB may be captured.
set -u

# With this tag, Oozie ends the run's application where the workflow is killed.
tag=$(tr '\n' ' ' <"$OOZIE_ACTION_CONF_XML" | sed 's|</property>|\
|g' | sed -n 's|.*<name>oozie\.child\.mapreduce\.job\.tags</name>[^<]*<value>\([^<]*\)</value>.*|\1|p')
sh ./nightly.sh "$1" "$2" ${tag:+--set "submit.conf.spark.yarn.tags=sparktf,$tag"} >&2
echo "verdict=$?"
