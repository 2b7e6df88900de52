fullbore bench "$PHOTOS" --dtype float8
