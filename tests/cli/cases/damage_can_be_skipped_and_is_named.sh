cp -r "$PHOTOS" mine
head -c 1500 "$PHOTOS/cat/00.jpg" >mine/cat/00.jpg
: >mine/dog/empty.png
set +e
fullbore bench mine --threads 1 --on-error skip --json | python3 -c 'import json, sys; r = json.load(sys.stdin); print(r["samples"], r["bad_samples"])'
exit ${PIPESTATUS[0]}
