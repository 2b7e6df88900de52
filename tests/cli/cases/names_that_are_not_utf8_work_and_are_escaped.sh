mkdir -p mine/cat
cp "$PHOTOS/cat/00.jpg" "$(printf 'mine/cat/a\377\033[31m.jpg')"
fullbore bench mine --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["samples"])'
echo no >"$(printf 'mine/cat/a\377\033[31m.jpg')"
fullbore bench mine
