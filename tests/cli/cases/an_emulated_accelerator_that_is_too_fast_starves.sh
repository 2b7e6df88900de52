fullbore bench "$PHOTOS" --batch-size 4 --epochs 40 --step-ms 0.05 --json | python3 -c '
import json, sys
r = json.load(sys.stdin)
print(r["samples"], r["accelerator_utilization_ratio"] < 0.5, r["exposed_wait_ratio"] > 0.5)'
