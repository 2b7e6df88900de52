for transform in rrc224 eval224 none "resize size=32,32"; do
    for dtype in uint8 float16 bfloat16 float32; do
        fullbore bench "$PHOTOS" --transform "$transform" --dtype $dtype --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["samples"])'
    done
done | uniq -c | sed 's/ *//'
