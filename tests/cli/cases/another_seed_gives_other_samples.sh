for seed in 1 2; do
    fullbore bench "$PHOTOS" --seed $seed --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["checksum"])'
done | uniq | wc -l
