fullbore bench "$PHOTOS" --batch-size 1000 --json | python3 -c 'import json, sys; r = json.load(sys.stdin); print(r["samples"], r["batches"])'
