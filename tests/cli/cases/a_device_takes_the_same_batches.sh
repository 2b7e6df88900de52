for device in "" "--device emulated" "--device emulated:200MB/s,1ms"; do
    fullbore bench "$PHOTOS" --batch-size 4 $device --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["checksum"])'
done | sort -u | wc -l
fullbore bench "$PHOTOS" --batch-size 4 --device emulated:200MB/s,1ms --json | python3 -c '
import json, sys
r = json.load(sys.stdin)
print(r["device"], r["device_copied_bytes"] >= r["samples"] * 3 * 224 * 224 * 4)'
