#!/usr/bin/env bash
# The self-test on a machine that is lent for minutes: `bash examples/gpu_lab/run.sh OUT`, from a checkout, with the
# python3 (or PYTHON) that has torch and numpy. Leaves in OUT results.json, log.txt and the runs: cat runs.tar.gz.* | tar xz
#
# Where one of the packages below is missing and nothing can be downloaded, put their wheels into a folder before:
#   pip download --only-binary=:all: --python-version 3.12 --dest wheels backports.zstd click httptools isal msgspec rich
# and name it: WHEELS=wheels bash examples/gpu_lab/run.sh OUT
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$(realpath -m "${1:?the folder for the results}")
python=${PYTHON:-python3}
most=$((60 * 1000 * 1000))
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

if ! "$python" -c 'import backports.zstd, click, httptools, isal, msgspec, rich' 2>/dev/null; then
  "$python" -m pip install --quiet --no-index --find-links "${WHEELS:?the folder with the wheels}" \
    --target "$work/packages" backports.zstd click httptools isal msgspec rich
fi
export PYTHONPATH=$PWD:$work/packages

# Ends within the time that is lent; what was found until then is told, and the runs are kept.
status=0
timeout --kill-after=20 440 "$python" -c 'from profiler.cli.main import main; main()' selftest \
  --keep "$work/runs" --json "$out/results.json" >"$out/log.txt" 2>&1 || status=$?
cat "$out/log.txt"

# The traces are nearly all of it. Parts, since some machines give back small files only.
tar -C "$work" --exclude .profiler -czf "$work/runs.tar.gz" runs
if [ "$(stat -c %s "$work/runs.tar.gz")" -gt "$most" ]; then
  echo "more than $most bytes: the largest traces are left out"
  tar -C "$work" --exclude .profiler --exclude 'norm-row-by-row' -czf "$work/runs.tar.gz" runs
fi
split -b 15m -d "$work/runs.tar.gz" "$out/runs.tar.gz."
ls -l "$out"
exit "$status"
