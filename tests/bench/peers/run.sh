#!/usr/bin/env bash
# run.sh CLASS: builds what is missing into $PEERS_BUILD and runs the peer until it is stopped. Settings: see the class.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=${PEERS_BUILD:-${TMPDIR:-/tmp}/moneystate-peers}
class=${1:?StockPeer}
if [ ! -d "$build/jars" ]; then
  mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$build/jars" >&2
fi
if [ -z "$(find "$build/classes" -name "$class.class" -newer "$here/$class.java" 2>/dev/null)" ]; then
  mkdir -p "$build/classes"
  javac -nowarn -d "$build/classes" -cp "$build/jars/*" "$here/$class.java" >&2
fi
[ "${BUILD_ONLY:-}" ] || exec java -Xmx1g -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$build/classes:$build/jars/*" "$class"
