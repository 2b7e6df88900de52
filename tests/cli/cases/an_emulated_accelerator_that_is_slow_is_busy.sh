fullbore bench "$PHOTOS" --batch-size 4 --epochs 4 --step-ms 60 --probe --json | python3 -c '
import json, sys
r = json.load(sys.stdin)
print(r["samples"], r["accelerator_utilization_ratio"] > 0.5, r["exposed_wait_ratio"] < 0.5, r["probe_lateness_p99_seconds"] >= 0)'
