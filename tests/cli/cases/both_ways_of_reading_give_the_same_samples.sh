for io in auto pread; do
    fullbore bench "$PHOTOS" --io $io --cold --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["checksum"])'
done | uniq | wc -l
