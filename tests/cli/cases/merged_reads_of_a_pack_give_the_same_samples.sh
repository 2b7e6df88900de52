fullbore pack "$PHOTOS" -o p.tar > /dev/null
for io in auto merge:over=auto merge:lanes=1,over=pread merge:lanes=1,over=slow:latency_us=2000; do
    fullbore bench p.tar --io $io --order window --cold --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["checksum"])'
done | uniq | wc -l
