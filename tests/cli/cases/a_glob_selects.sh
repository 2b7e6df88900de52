fullbore info "$PHOTOS/*/*.png" --json | python3 -c 'import json, sys; i = json.load(sys.stdin); print(i["kind"], i["samples"], i["formats"])'
