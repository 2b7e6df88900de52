printf 'path,pose,score\n%s/cat/00.jpg,1 2 3,0.5\n%s/dog/01.jpg,4 5 6,0.25\n' "$PHOTOS" "$PHOTOS" >labels.csv
fullbore info labels.csv --json | python3 -c 'import json, sys; i = json.load(sys.stdin); print(i["kind"], i["samples"], [f["name"] for f in i["fields"]])'
