fullbore bench "$PHOTOS" --batch-size 5 --epochs 2 --json | python3 -c '
import json, sys
r = json.load(sys.stdin)
wanted = {"samples_per_second", "accelerator_utilization_ratio", "exposed_wait_ratio", "cpu_seconds_per_1000_samples", "budget_peak_bytes",
          "rss_peak_bytes", "time_to_first_batch_seconds", "epoch_gap_seconds", "stages"}
print(sorted(wanted - set(r)), r["samples"], r["batches"], r["accelerator_utilization_ratio"])
for s in r["stages"]:
    assert {"name", "busy_seconds", "waiting_for_input_seconds", "waiting_for_output_seconds", "items", "bytes"} <= set(s), s
print([s["items"] >= 48 for s in r["stages"] if s["name"] == "decode"])'
