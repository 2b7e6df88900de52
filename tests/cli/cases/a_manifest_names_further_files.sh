printf 'image,mask,score\n%s/cat/00.jpg,%s/cat/00.jpg,0.5\n' "$PHOTOS" "$PHOTOS" >pairs.csv
fullbore info pairs.csv --json | python3 -c 'import json, sys; i = json.load(sys.stdin); print([f["name"] for f in i["fields"]], i["files"])'
fullbore info pairs.csv | grep -A1 labels
