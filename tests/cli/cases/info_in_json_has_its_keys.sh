fullbore info "$PHOTOS" --json | python3 -c '
import json, sys
i = json.load(sys.stdin)
print(i["kind"], i["samples"], i["classes"], i["formats"], i["smallest_class_samples"], i["catalog_is_new"])'
