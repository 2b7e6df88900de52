for threads in 1 2 3 8; do
    fullbore bench "$PHOTOS" --epochs 2 --batch-size 7 --threads $threads --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["checksum"])'
done | uniq -c | wc -l
