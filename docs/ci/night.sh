#!/bin/sh
# A night and its trend, for cron, run in the folder of icequake. Its exit code is the night's, or the trend's if the night has 0; 75, and a line
# that says so, if the night before still runs: flock's own code for that is 1, which means an anomaly.
night=$(date -u -d '-12 hours' +%F)  # before the night, which may end after noon
code=0
# --at-least 100: with fewer operations of a combination, a defect that shows in 3 of 100 may be missed; two runs made more on two busy cores
flock -n -E 75 store.lock ./icequake soak nightly --for 6h --at-least 100 --keep 20GB --store store --lake yes --quiet || code=$?
if [ "$code" = 75 ]; then
  echo 'the night before still runs: there is none tonight'
  exit 75
fi
./icequake trend --store store --suite nightly --night "$night" --fail-on-regression || { trend=$?; test "$code" != 0 || code=$trend; }
exit "$code"
