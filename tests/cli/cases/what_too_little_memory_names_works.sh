size=$(fullbore bench "$PHOTOS" --batch-size 64 --memory 1MiB 2>&1 | grep -oE '[0-9]{7,}')
fullbore bench "$PHOTOS" --batch-size 64 --memory "$size" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["samples"])'
fullbore bench "$PHOTOS" --batch-size 64 --memory "$((size - 1048576))" 2>/dev/null || echo "less: exit $?"
