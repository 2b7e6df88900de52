FULLBORE_IO=pread fullbore bench "$PHOTOS" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["io"])'
